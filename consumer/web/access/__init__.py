"""Decide who sends a request, and which tenants and rights that token has.

The header ``Authorization`` comes in; a :class:`Caller`, or 401, 403, 404 or 429, goes out.
What a route does with its caller belongs to ``consumer.web.routes``.
"""
