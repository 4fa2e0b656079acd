"""Proofs of what an operator sees, such as faults that `leveret doctor` names and panels, and of its cost."""
