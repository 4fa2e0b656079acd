"""Give every route the same errors, limits, pages, preconditions and access log.

ASGI messages and plain values come in; ASGI messages and plain values go out.
Settings, store and broker belong to ``consumer.web.context`` and above.
"""
