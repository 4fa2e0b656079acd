"""Try Leveret out: publish events, receive webhooks, verify a signature; write the alert rules.

Events, captured requests and options come in; confirmed ids, findings and files go out.
Commands that operate a running daemon do not belong here.
"""
