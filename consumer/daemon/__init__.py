"""Build one worker from its settings and run it until a signal.

Settings come in; a running worker and an exit code go out.
The handling of an event belongs to ``consumer.flow``.
"""
