"""Decide whether a store is the right one, which deletions it records, and how it encrypts secrets.

Generations, tombstones, keys and secrets come in; verdicts and encrypted text go out.
SQL belongs to ``edges.store``, and waiting for the right store to ``flow.store``.
"""
