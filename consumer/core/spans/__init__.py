"""Derive the identity of an event's span, and decide whether it is recorded.

Events come in; the ids of their spans and the decision of the sampling go out.
Recording and exporting spans belongs to ``consumer.edges.tracing``.
"""
