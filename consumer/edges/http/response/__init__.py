"""Read one HTTP response, the same for both senders.

Bytes of a connection come in; a status with its headers, or a protocol fault, goes out.
The meaning of a status belongs to ``core.retry``.
"""
