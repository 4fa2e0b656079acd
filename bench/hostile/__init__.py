"""The proofs about attacks by strangers, one module each."""
