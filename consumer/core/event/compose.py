"""Compose an event as an application would publish it, from the values that an operator gives.

Data flow: type, tenant, data, id -> Draft, checked -> compose(number) -> Composed, which an edge publishes.
The bytes of the data are checked and then used unchanged, also within a structured CloudEvent.

Source: docs/publish.md; CloudEvents 1.0.2, JSON format and AMQP binding.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import orjson

from consumer.core.errors import BadEvent, ConfigError
from consumer.core.event import jsontext
from consumer.core.event.amqp_values import MAX_TEXT_BYTES, MAX_TYPE_BYTES, normalise_type
from consumer.core.event.cloudevents import PREFIX
from consumer.core.event.content import is_json, media_type, read_data
from consumer.core.event.decode import TENANT_PATTERN
from consumer.core.model import OPERATORS, DataForm
from consumer.core.text import rfc3339
from consumer.core.text.ids import event_id, hashed_id

NUMBER: Final = "{n}"
"""Placeholder for the event's number, from 1, in data and id; replaced only if several are composed."""
STRUCTURED_TYPE: Final = "application/cloudevents+json"
SHORT_TEXT_BYTES: Final = 255
"""AMQP's limit for the properties ``message_id`` and ``content_type``."""
_NUMBER_DIGITS: Final = 20


class Form(StrEnum):
    """The form in which an event is written into a message."""

    PLAIN = "plain"  #: the body is the data
    STRUCTURED = "structured"  #: the body is a CloudEvent in JSON
    BINARY = "binary"  #: the body is the data; the attributes of the CloudEvent are headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """One event, ready to be published."""

    id: str  #: the id given by the caller: ``message_id``, or the CloudEvent's ``id``
    webhook_id: str  #: the id that receivers will see
    routing_key: str
    body: bytes
    content_type: str
    headers: Mapping[str, object]
    timestamp_s: float  #: Unix seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The properties that all events of one call share."""

    type: str
    tenant: str
    data: bytes
    content_type: str = "application/json"
    form: Form = Form.PLAIN
    source: str = "/leveret/publish"  #: of a CloudEvent
    tenant_header: str = "tenant"
    numbered: bool = False  #: True: :data:`NUMBER` in data and id is replaced

    def check(self, max_event_bytes: int) -> None:
        """Check that Leveret will accept the events.

        Args:
            max_event_bytes: The longest body that Leveret accepts.

        Raises:
            ConfigError: the event would be parked. The text names the fault, its place and the remedy.
        """
        _check_type(self.type)
        if not TENANT_PATTERN.fullmatch(self.tenant):
            raise ConfigError("--tenant: must be 1 to 128 of A-Z a-z 0-9 _ . : @ -")
        if self.tenant == OPERATORS:
            raise ConfigError(f"--tenant: {OPERATORS!r} is reserved for operational events, choose another")
        _check_text("--source", self.source, MAX_TEXT_BYTES)
        _check_text("--content-type", self.content_type, SHORT_TEXT_BYTES)
        if media_type(self.content_type).startswith("application/cloudevents"):
            raise ConfigError("--content-type: describes the data; use --cloudevents to send a CloudEvent")
        if is_json(self.content_type):
            _check_json(self._numbered(self.data, 1))
        size = len(self.compose("x" * 36, 1, 0.0).body)
        if size > max_event_bytes:
            raise ConfigError(
                f"the event has {size} bytes, at most {max_event_bytes} are accepted; publish less and link "
                "to the rest, or raise [events] max_event_bytes"
            )

    def compose(self, given_id: str, number: int, at: float) -> Composed:
        """Return the event with this number.

        Args:
            given_id: The event's id; :data:`NUMBER` in it is replaced as in the data.
            number: The event's number, from 1.
            at: Unix seconds when the event occurred.
        """
        one_id = self._numbered(given_id.encode(), number).decode()
        data = self._numbered(self.data, number)
        headers: dict[str, object] = {self.tenant_header: self.tenant}
        body, content_type = data, self.content_type
        if self.form is Form.STRUCTURED:
            body, content_type = self._structured(one_id, data, at), STRUCTURED_TYPE
        elif self.form is Form.BINARY:
            headers |= {PREFIX + name: value for name, value in self._attributes(one_id, at).items()}
        plain = self.form is Form.PLAIN
        return Composed(
            id=one_id,
            webhook_id=event_id(one_id) if plain else hashed_id(self.source.encode(), one_id.encode()),
            routing_key=self.type,
            body=body,
            content_type=content_type,
            headers=headers,
            timestamp_s=at,
        )

    def _numbered(self, text: bytes, number: int) -> bytes:
        return text.replace(NUMBER.encode(), str(number).encode()) if self.numbered else text

    def _attributes(self, one_id: str, at: float) -> dict[str, str]:
        time = rfc3339.from_ms(int(at * 1000))
        return {"specversion": "1.0", "id": one_id, "source": self.source, "type": self.type, "time": time}

    def _structured(self, one_id: str, data: bytes, at: float) -> bytes:
        """Write the CloudEvents JSON format around the unchanged bytes of the data."""
        found = read_data(self.content_type, data)
        attributes = self._attributes(one_id, at) | {"datacontenttype": self.content_type}
        if found.form is DataForm.JSON:
            member, value = b"data", data[found.start : found.end]
        elif found.form is DataForm.TEXT:
            member, value = b"data", orjson.dumps(data.decode())
        else:
            member, value = b"data_base64", orjson.dumps(base64.b64encode(data).decode())
        return b'%b,"%b":%b}' % (orjson.dumps(attributes)[:-1], member, value)


def check_id(text: str) -> None:
    """Check that *text* is valid as the id of an event, even after a number is inserted.

    Raises:
        ConfigError: *text* is empty, or AMQP cannot carry it.
    """
    _check_text("--id", text, SHORT_TEXT_BYTES - _NUMBER_DIGITS)


def _check_type(text: str) -> None:
    _check_text("TYPE", text, MAX_TYPE_BYTES)
    try:
        normalise_type(text)
    except BadEvent as error:
        raise ConfigError(f"TYPE: {error.detail}; write words joined by full stops: order.created") from None


def _check_text(name: str, text: str, most: int) -> None:
    """Require printable text of 1 to *most* bytes. Text with undecodable bytes is not printable."""
    if not text.isprintable() or not 0 < len(text.encode()) <= most:
        raise ConfigError(f"{name}: must be 1 to {most} bytes of printable UTF-8")


def _check_json(data: bytes) -> None:
    fault = jsontext.first_fault(data)
    if fault is None:
        return
    if not data.strip():
        raise ConfigError("the data is empty; give JSON as an argument, with --file, or on stdin")
    line, column, why = fault
    raise ConfigError(
        f'the data is not JSON: line {line}, column {column}: {why}; quote names and texts with ", or name '
        "its type with --content-type"
    )
