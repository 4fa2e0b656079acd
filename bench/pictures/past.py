"""The history of the hour before the pictures, as a worker would have recorded it."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from typing import Final

from bench.pictures.shops import BROKEN_FOR_S, PAYLOADS, SHOPS, Shop
from consumer.core.history.records import HistoryRow
from consumer.core.subscription.subscription import subscription_id

HOUR_S: Final = 3_600.0
_MINUTE_S: Final = 60.0
BUSY: Final = 4  #: attempts for each one that the shop names


def hour_before(now: float) -> list[HistoryRow]:
    """Return the rows of the last hour, the oldest first; *now* in Unix seconds."""
    rows = [row for shop in SHOPS for row in _rows(shop, now, random.Random(shop.name))]
    return sorted(rows, key=lambda row: row.at)


def _rows(shop: Shop, now: float, dice: random.Random) -> Iterator[HistoryRow]:
    for minute in range(60, 0, -1):
        start = now - minute * _MINUTE_S
        busy = BUSY * shop.per_min * (1 + 0.35 * math.sin(minute / 7)) + dice.random()
        for index in range(round(busy)):
            at = start + _MINUTE_S * (index + dice.random()) / max(1, busy)
            fails = (shop.broken and now - at < BROKEN_FOR_S) or dice.random() < max(shop.fails, 0.002)
            yield from _delivery(shop, at, dice, fails=fails)


def _delivery(shop: Shop, at: float, dice: random.Random, *, fails: bool) -> Iterator[HistoryRow]:
    event_id = f"evt_{dice.getrandbits(64):016x}"
    kind = next(each for each in PAYLOADS if each.startswith(shop.events[0].partition(".")[0]))
    yield HistoryRow(at - 0.01, "received", event_id, shop.tenant, kind, number=1)
    good = HistoryRow(
        at=at,
        step="attempt",
        event_id=event_id,
        tenant=shop.tenant,
        type=kind,
        subscription_id=subscription_id(shop.tenant, shop.name),
        delivery_id=f"dlv_{dice.getrandbits(64):016x}",
        number=1,
        kind="ok",
        status=200,
        latency_ms=1_000 * shop.latency_s * (0.8 + 0.5 * dice.random() ** 2),
        reason="delivered",
    )
    if not fails:
        yield good
        return
    status = shop.answer if shop.answer != 200 else 503
    body = json.dumps(shop.body or {"error": "unavailable"}).encode()
    yield good._replace(
        kind="http_5xx" if status >= 500 else "http_4xx",
        status=status,
        wait_ms=30_000.0,
        reason="retry",
        answer=body,
        answer_type="application/json",
    )
