"""Build the sender of webhooks, with an address guard that refuses every place of our own."""

from __future__ import annotations

from consumer.edges.http.build import WebhookSender, open_sender
from consumer.edges.private_broker import ports_in
from consumer.settings import Settings


def make_sender(settings: Settings) -> WebhookSender:
    """Return the sender of the settings; it opens nothing before the first request.

    Raises:
        ConfigError: the CA file, or a file that contains a URL, cannot be read.
    """
    sender = open_sender(settings)
    for port in ports_in(settings.home):
        sender.guard.protect("127.0.0.1", port)
    host, port = settings.api.place()
    if port:
        sender.guard.protect(host, port)
    return sender
