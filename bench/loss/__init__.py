"""The proofs of what used to lose or delay deliveries, one module each."""
