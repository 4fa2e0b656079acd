"""Build the body of a webhook: ``{"type","timestamp","data"}`` and the event's further members.

Data flow: Event -> build_body -> the bytes that core.signing signs and the sender sends, for every target.
"""

from __future__ import annotations

from base64 import b64encode

import orjson

from consumer.core.model import DataForm, Event


def build_body(event: Event) -> bytes:
    """Return the payload as minified JSON, with the bytes of the data as they were published.

    The same event gives the same bytes on every attempt. The members of *event.extras* follow these three, in
    their order.

    Source: Standard Webhooks 1.0.0, "Payload structure".
    """
    head = b'{"type":%b,"timestamp":%b,"data":' % (orjson.dumps(event.type), orjson.dumps(event.timestamp))
    if not event.extras:
        return b"".join((head, _data(event), b"}"))
    return b"".join((head, _data(event), b",", orjson.dumps(dict(event.extras))[1:]))


def _data(event: Event) -> bytes:
    match event.form:
        case DataForm.JSON:
            if event.data_start == 0 and event.data_end is None:
                return event.body
            return event.body[event.data_start : event.data_end]
        case DataForm.TEXT:
            return orjson.dumps(event.body.decode())
        case DataForm.BASE64:
            return b'"' + b64encode(event.body) + b'"'
        case DataForm.NULL:
            return b"null"
