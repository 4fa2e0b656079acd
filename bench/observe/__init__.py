"""Proofs of what an operator sees, such as faults that the doctor names, and of its cost."""
