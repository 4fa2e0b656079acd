"""Take one message to its end.

Jobs come in; requests, delivery messages, parked entries and exactly one ack go out.
The order of jobs belongs to ``flow.take``, and the state of endpoints to ``flow.endpoints``.
"""
