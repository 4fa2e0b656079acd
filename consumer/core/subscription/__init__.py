"""Define a subscription and find the subscriptions that want an event.

Entries of a file or a row come in; checked subscriptions, matchers and trial webhooks go out.
Changes from one state of the subscriptions to the next belong to ``core.changes``.
"""
