"""Proofs of the history: its cost, its truth, its retention, and a store that is away."""
