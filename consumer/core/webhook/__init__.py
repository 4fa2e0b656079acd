"""Build, sign and verify webhooks as Standard Webhooks 1.0.0 requires.

Events and secrets come in; bodies, signature headers and findings go out.
The request itself belongs to the senders, and the meaning of its answer to ``core.retry``.
"""
