"""CloudEvents as messages, in the structured and in the binary mode."""

from __future__ import annotations

import json
from typing import Any

from consumer.core.model import RawMessage
from tests.support.builders.messages import message

STRUCTURED = "application/cloudevents+json"
ATTRIBUTES = {"id": "A.1", "source": "/shop", "specversion": "1.0", "type": "com.example.order-created"}


def structured(content_type: str = STRUCTURED, **members: Any) -> RawMessage:
    """A structured CloudEvent; a member that is ... is left out."""
    given_members = {name: value for name, value in (ATTRIBUTES | members).items() if value is not ...}
    return message(json.dumps(given_members).encode(), content_type=content_type)


def binary(prefix: str = "ce-", body: bytes = b'{"n":1}', **attributes: Any) -> RawMessage:
    """A binary CloudEvent; an attribute that is ... is left out."""
    given_attributes = {name: value for name, value in (ATTRIBUTES | attributes).items() if value is not ...}
    return message(body, headers={"tenant": "acme"} | {prefix + n: v for n, v in given_attributes.items()})
