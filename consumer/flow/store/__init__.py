"""Keep the subscriptions of the store in memory, and doubt a store that the broker does not know.

Loads, reloads and the broker's record of the store come in; matched subscriptions and an open or closed gate
go out. SQL belongs to ``edges.store``.
"""
