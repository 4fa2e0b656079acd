"""Take messages of our queues in hand, and settle them.

Frames of a channel come in; Incoming with its ticket goes out, and acks go back to the broker.
Connections and the choice of queues belong to ``edges.broker``; the work on a message belongs to the flow.
"""
