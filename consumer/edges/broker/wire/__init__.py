"""Read and write AMQP frames where the library is too slow or too strict; see README.md in this folder.

Frames and values come in; values and frames go out.
Connections and channels belong to ``edges.broker``.
"""
