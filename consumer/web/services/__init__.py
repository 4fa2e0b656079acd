"""Do what routes and pages ask: the pure steps of the core in transactions of the store.

Plain values come in; plain values, or a :class:`Problem`, go out.
HTTP, JSON and HTML belong to ``consumer.web.routes`` and ``consumer.web.pages``.
"""
