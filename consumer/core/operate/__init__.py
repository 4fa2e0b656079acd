"""Show parked entries and traces, count replays beforehand, and describe changes for the audit log.

Values of ``consumer.core.message`` and ``consumer.core.history`` come in; dicts, counts and changes go out.
The formats of messages belong to ``consumer.core.message``.
"""
