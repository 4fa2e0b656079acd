"""Try Leveret out: publish events, receive webhooks, verify a signature.

Events and captured requests come in; confirmed ids and findings go out.
Commands that operate a running daemon do not belong here.
"""
