"""Proofs of the first hour: what a newcomer sees, types and finds."""
