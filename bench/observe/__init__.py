"""Proofs of what an operator sees, such as faults that `leveret doctor` names, and of its cost."""
