"""Answer questions about many deliveries and about the worker; no queue is touched.

Conditions of a list, or the text of a page come in; pages of rows and traces, or samples go out.
The trace of one event belongs to ``consumer.edges.operate``.
"""
