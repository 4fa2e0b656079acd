"""The routes of the API, version 1: one module per resource, each with a ``router``.

Requests come in; calls of ``consumer.web.services`` and JSON go out.
No decision belongs here.
"""
