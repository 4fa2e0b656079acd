"""Act on the outside world: broker, HTTP, store, files, processes.

Calls of the ports come in; frames, requests, rows and lines go out.
Rules belong to ``consumer.core``, and the order of steps to ``consumer.flow``.
"""
