"""Compute the next state of the stored subscriptions from a file or a command.

The stored subscriptions and the wanted change come in; the next state, and a readable difference, go out.
Reading and writing the store belongs to ``edges.store``.
"""
