"""Change the kept subscriptions: from a file or a command to the next state.

The kept subscriptions and the wanted change come in; the next state, and a readable difference, go out.
Reading and writing the store belongs to ``edges.store``.
"""
