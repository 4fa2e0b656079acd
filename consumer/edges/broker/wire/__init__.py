"""Read and write single AMQP frames where the library is too slow or too trusting; see README.md beside this.

Frames and values come in; values and frames go out.
Connections and channels belong to ``edges.broker``.
"""
