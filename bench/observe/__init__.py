"""Proofs of what an operator sees: faults that the doctor names, panels, lost deliveries; and of its cost."""
