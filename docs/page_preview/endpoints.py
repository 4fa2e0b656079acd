"""Sample endpoints: most of them are well, some have typical faults."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from consumer.core.history.records import HistoryRow, Step
from consumer.web.pages.views.endpoints import EndpointPage, EndpointsPage, ErrorKind, Threshold
from consumer.web.pages.views.parts import (
    Condition,
    EndpointLine,
    LastError,
    Pager,
    Series,
    Shell,
    State,
)
from consumer.web.pages.words import by_trouble

NOW: Final = 1_780_711_449.0  #: 2026-06-06 02:04:09 UTC
SHELL: Final = Shell(now=NOW, csrf="sample", user="night shift", scope="admin")
ANSWER: Final = (
    b'{"error":"database_unavailable","message":"FATAL: remaining connection slots are reserved for '
    b'superusers","request_id":"req_7f3a91c2"}'
)
EVENT: Final = "evt_01J9ZK3V7Q8W2N5T"


def wave(base: float, swing: float, drop: float = 0.0, *, top: float = math.inf) -> Series:
    """Return an hour of numbers, one for each minute; the last twenty fall by *drop*."""
    values = []
    for minute in range(60):
        noise = math.sin(minute * 1.7) + math.sin(minute * 0.61) * 0.7
        late = max(0, minute - 40) / 20
        values.append(max(0.0, min(top, base + swing * noise - drop * late)))
    return Series(values=values)


def _line(
    tenant: str, name: str, condition: Condition, success_ratio: float | None, p95_s: float | None
) -> EndpointLine:
    drop = 0.0 if success_ratio is None else 1 - success_ratio
    return EndpointLine(
        subscription_id=f"sub_{abs(hash_of(tenant + name)):016x}",
        tenant=tenant,
        name=name,
        url=f"https://hooks.{tenant}.example/leveret/{name}",
        condition=condition,
        success_ratio=success_ratio,
        p95_s=p95_s,
        success=wave(0.99, 0.006, drop, top=1.0) if success_ratio is not None else Series(),
    )


def hash_of(text: str) -> int:
    """Return a number that is the same in every process."""
    return int.from_bytes(text.encode()[-7:].rjust(7, b"\1"), "big") * 257


def _with(line: EndpointLine, waiting: int, parked: int, error: LastError | None) -> EndpointLine:
    return EndpointLine(
        subscription_id=line.subscription_id,
        tenant=line.tenant,
        name=line.name,
        url=line.url,
        condition=line.condition,
        success_ratio=line.success_ratio,
        p95_s=line.p95_s,
        success=line.success,
        waiting=waiting,
        parked=parked,
        last_error=error,
    )


FAILING: Final = _with(
    _line("acme", "orders", Condition(state=State.OPEN, since=NOW - 668, until=NOW + 51), 0.31, 4.2),
    2_310,
    212,
    LastError(
        at=NOW - 9, code="503", detail="Service Unavailable", answer=ANSWER, answer_type="application/json"
    ),
)
LINES: Final[Sequence[EndpointLine]] = by_trouble(
    [
        FAILING,
        _with(
            _line("globex", "billing", Condition(state=State.PROBING, since=NOW - 184), 0.52, 15.0),
            418,
            6,
            LastError(at=NOW - 22, code="timeout_total", detail="no answer within 15 s"),
        ),
        _with(
            _line("initech", "crm", Condition(state=State.DEGRADED), 0.874, 0.81),
            37,
            0,
            LastError(at=NOW - 4, code="500", detail="Internal Server Error", answer=b"<h1>Oops</h1>"),
        ),
        _with(
            _line("umbrella", "lab", Condition(state=State.RESTING, until=NOW + 300), 0.96, 0.2),
            144,
            0,
            LastError(at=NOW - 61, code="429", detail="Retry-After: 360"),
        ),
        _with(
            _line(
                "acme",
                "warehouse",
                Condition(state=State.PAUSED, since=NOW - 7_300, reason="move of the data centre"),
                None,
                None,
            ),
            893,
            0,
            None,
        ),
        _with(
            _line(
                "hooli",
                "legacy",
                Condition(state=State.DISABLED, since=NOW - 90_000, reason="every attempt failed for 5 days"),
                None,
                None,
            ),
            0,
            31,
            LastError(at=NOW - 90_000, code="dns", detail="hooks.hooli.example: no such name"),
        ),
        *(
            _line(tenant, name, Condition(state=State.WELL, since=NOW - 400_000), ratio, p95)
            for tenant, name, ratio, p95 in (
                ("acme", "shop", 1.0, 0.084),
                ("stark", "erp", 0.9994, 0.121),
                ("wayne", "ledger", 0.999, 0.046),
                ("tyrell", "fulfilment", 0.998, 0.31),
                ("cyberdyne", "audit-trail", 1.0, 0.062),
            )
        ),
    ]
)


def attempts(tenant: str, subscription_id: str) -> Sequence[HistoryRow]:
    """Return the last attempts of an endpoint that began to fail a while ago."""
    rows = []
    for index in range(9):
        failed = index < 6
        late = index == 3
        rows.append(
            HistoryRow(
                at=NOW - 9 - index * 74.3,
                step=Step.ATTEMPT,
                event_id=f"evt_01J9ZK3V7Q8W2N5{'TRPMKHFDB'[index]}",
                tenant=tenant,
                type=("order.created", "order.paid", "order.shipped")[index % 3],
                subscription_id=subscription_id,
                number=5 - index % 4 if failed else 1,
                kind="timeout_total" if late else "http_5xx" if failed else "ok",
                status=None if late else 503 if failed else 204,
                latency_ms=15_000.0 if late else 4_180.0 - index * 33 if failed else 71.0 + index,
                wait_ms=None if index == 1 else 120_000.0 if failed else None,
                reason=("park" if index == 1 else "retry") if failed else "delivered",
                detail="no answer within 15 s" if late else "",
                answer=ANSWER if failed and not late else None,
                answer_type="application/json" if failed and not late else "",
            )
        )
    return rows


THRESHOLDS: Final = (
    Threshold(
        name="failures", label="Failures in a row", unit="attempts", value=None, default=5,
        hint="The breaker opens after so many; 0 switches it off.",
    ),
    Threshold(
        name="failure_ratio", label="Failure ratio", unit="0 to 1", value=0.5, default=0,
        hint="The breaker opens at this share, too; 0: at no share.",
    ),
    Threshold(
        name="window_s", label="Window of the ratio", unit="s", value=None, default=60,
        hint="Answers of this time count.",
    ),
    Threshold(
        name="min_requests", label="Least answers", unit="attempts", value=None, default=20,
        hint="Fewer answers in the window decide nothing.",
    ),
    Threshold(
        name="cooldown_s", label="Cooldown", unit="s", value=60, default=30,
        hint="From the opening to the first probe.",
    ),
    Threshold(
        name="cooldown_max_s", label="Longest cooldown", unit="s", value=None, default=300,
        hint="Each failed probe doubles the cooldown, up to this.",
    ),
)  # fmt: skip


def endpoint_page(shell: Shell, line: EndpointLine = FAILING) -> EndpointPage:
    """Return the page of an endpoint."""
    return EndpointPage(
        shell=shell,
        line=line,
        events=("order.#", "refund.created"),
        latency=wave(0.3, 0.08, -3.8),
        attempts_hour=1_862,
        failures_in_row=37,
        in_flight=1,
        errors=(
            ErrorKind(code="503", count=1_174, last_at=NOW - 9),
            ErrorKind(code="timeout_total", count=96, last_at=NOW - 231),
            ErrorKind(code="reset", count=14, last_at=NOW - 655),
        ),
        attempts=attempts(line.tenant, line.subscription_id),
        thresholds=THRESHOLDS,
        version="W/42",
        older="?before=4711",
    )


def endpoints_page(shell: Shell) -> EndpointsPage:
    """Return the table of endpoints."""
    return EndpointsPage(shell=shell, lines=LINES, total=214, pager=Pager(next="?after=11"))
