"""Open one connection to an endpoint: look-up, address guard, TCP, proxy, TLS.

A URL comes in; an open socket, or the fault in the core's terms, goes out.
Requests and pools belong to ``edges.http.senders``.
"""
