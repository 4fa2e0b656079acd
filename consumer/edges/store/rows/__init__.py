"""Convert values of the core into rows, and rows into values.

Connections and values come in; SQL and values go out.
Transactions and the choice of a database belong to ``edges.store``.
"""
