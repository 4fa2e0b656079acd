"""The proofs of fairness; see :mod:`bench.prove_fairness`."""
