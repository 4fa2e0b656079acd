"""The proofs of the first hour; see :mod:`bench.prove_newcomer`."""
