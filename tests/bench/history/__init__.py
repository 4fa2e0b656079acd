"""The proofs of the history and of parked entries, in small."""
