"""Judge a store: which one it is, what it deleted, and how it seals secrets.

Generations, tombstones, keys and secrets come in; verdicts and sealed text go out.
SQL belongs to ``edges.store``, and waiting for the right store to ``flow.store``.
"""
