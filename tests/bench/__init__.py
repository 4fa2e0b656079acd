"""Tests of the proofs in ``bench``; no other test imports ``bench``."""
