"""Turn a producer's message into an :class:`~consumer.core.model.Event`.

Raw properties, headers and bodies come in; an event, or the reason why the message is unreadable, goes out.
Our own message formats belong to ``core.message``, and the choice of subscriptions to ``core.subscription``.
"""
