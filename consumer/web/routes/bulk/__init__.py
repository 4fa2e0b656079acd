"""Routes that work on several objects in one request; the command line uses them with ``--server``.

Requests come in; calls of ``consumer.web.services.bulk`` and JSON go out.
"""
