"""Measure the house: its structure, its cost against the state before, and its suite on a loaded machine."""
