"""Webhooks over HTTP: the sender (:mod:`.sender`), its address guard and TLS (:mod:`.guard`), its faults
in the core's words (:mod:`.outcomes`)."""

from consumer.edges.http.guard import Resolve
from consumer.edges.http.sender import AiohttpSender, SenderOptions

__all__ = ["AiohttpSender", "Resolve", "SenderOptions"]
