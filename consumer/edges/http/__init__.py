"""Webhooks over HTTP: two senders, :mod:`.sender` on aiohttp and :mod:`.httpx_sender` on httpx2.

Both are made of the same :mod:`.parts`: look-up, address guard, dialer with proxy and TLS. :mod:`.build` adds
OAuth2 tokens. What goes wrong is told in the core's words (:mod:`.outcomes`).
"""

from consumer.edges.http.build import WebhookSender, open_sender
from consumer.edges.http.connect.resolver import Resolve
from consumer.edges.http.options import Proxy, SenderOptions

__all__ = ["Proxy", "Resolve", "SenderOptions", "WebhookSender", "open_sender"]
