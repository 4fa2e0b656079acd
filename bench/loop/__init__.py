"""Proofs of the closed loop: the worker sees messages that do not come back, in a cluster too."""
