"""Hostile messages and hosts, which the tests and the proofs share."""
