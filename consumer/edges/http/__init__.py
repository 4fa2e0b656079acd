"""Send webhooks over HTTP, with one of two senders: aiohttp or httpx2 (see :mod:`.senders`).

Both use the same :mod:`.parts`: look-up, address guard, dialer with proxy and TLS. :mod:`.build` adds OAuth2
tokens. Faults are reported in the core's terms (:mod:`.outcomes`).
"""

from consumer.edges.http.build import WebhookSender, open_sender
from consumer.edges.http.connect.resolver import Resolve
from consumer.edges.http.options import Proxy, SenderOptions

__all__ = ["Proxy", "Resolve", "SenderOptions", "WebhookSender", "open_sender"]
