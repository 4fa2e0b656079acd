"""Connect to one of several brokers, and stay connected.

URLs come in; a connection, or the broker's own reason for a refusal, goes out.
Windows and publishers belong to ``edges.broker``.
"""
