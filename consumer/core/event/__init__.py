"""Turn a message of a producer into an :class:`~consumer.core.model.Event`.

Raw properties, headers and bodies come in; an event, or the reason why the message cannot be read, goes out.
Our own message formats belong to ``core.message``, and the choice of subscriptions to ``core.subscription``.
"""
