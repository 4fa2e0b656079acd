"""Proofs of what an operator sees: `leveret doctor` names the faults around a worker."""
