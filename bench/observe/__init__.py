"""Proofs of what an operator sees: the doctor names the faults around a worker, and a lost delivery shows."""
