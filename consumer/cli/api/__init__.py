"""Commands of the HTTP API: serve it, manage its tokens, read the audit log.

Options come in; calls of the store and of ``consumer.web`` go out.
"""
