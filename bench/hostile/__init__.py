"""The proofs of what strangers can do from outside, one module each."""
