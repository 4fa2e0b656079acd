"""Sample parked entries and replay jobs."""

from __future__ import annotations

from typing import Final

from consumer.core.model import Attempt, OutcomeKind
from consumer.web.pages.views.jobs import JobLine, JobPage, JobsPage
from consumer.web.pages.views.parked import (
    DryCount,
    EntryPage,
    Group,
    GroupTab,
    ParkedFilter,
    ParkedLine,
    ParkedPage,
    ResendPage,
)
from consumer.web.pages.views.parts import Choice, Pager, Shell
from docs.page_preview.endpoints import EVENT, FAILING, NOW

PAYLOAD: Final = b"""{
  "id": "ord_83112",
  "total": 249.90,
  "currency": "EUR",
  "customer": {"id": "cus_2201", "name": "Zo\xc3\xab M\xc3\xbcller"},
  "lines": [
    {"sku": "HARE-01", "quantity": 2, "price": 99.95},
    {"sku": "LEV-07", "quantity": 1, "price": 50.00}
  ]
}
"""
PROTOBUF: Final = bytes((index * 37 + 11) % 256 for index in range(200))
_DAY: Final = 86_400.0


def line(index: int, reason: str = "exhausted") -> ParkedLine:
    """Return an entry of the failing endpoint; each *index* has another age."""
    raw = reason == "malformed"
    return ParkedLine(
        id=f"prk_{(index * 0x9E3779B97F4A7C15) % 2**64:016x}",
        parked_at=NOW - 40 - index * 213,
        expires_at=NOW - 40 - index * 213 + 7 * _DAY,
        tenant="acme",
        type=("order.created", "order.paid", "order.shipped")[index % 3],
        subscription_id="" if raw else FAILING.subscription_id,
        subscription="" if raw else FAILING.full_name,
        reason=reason,
        detail="data is not JSON: unexpected character at byte 17" if raw else "12 attempts failed",
        code="" if raw else "503",
        attempts=0 if raw else 12,
        replays=index % 4 == 3,
    )


LINES: Final = tuple(line(index, "malformed" if index == 5 else "exhausted") for index in range(1, 13))
REASONS: Final = tuple(
    Choice(value=reason, label=label)
    for reason, label in (
        ("exhausted", "exhausted: every attempt failed"),
        ("permanent", "permanent: the endpoint refused it"),
        ("expired", "expired: too old"),
        ("disabled", "disabled: its subscription is off"),
        ("malformed", "malformed: it cannot be read"),
    )
)


def parked_page(shell: Shell) -> ParkedPage:
    """Return the list of parked entries."""
    return ParkedPage(
        shell=shell,
        lines=LINES,
        total=249,
        reasons=REASONS,
        tabs=tuple(
            GroupTab(key=key, label=key.capitalize(), href=f"?group={key}")
            for key in ("reason", "subscription", "type")
        ),
        groups=(
            Group(label="exhausted", count=212, oldest=NOW - 660, href="?reason=exhausted"),
            Group(label="disabled", count=31, oldest=NOW - 90_000, href="?reason=disabled"),
            Group(label="malformed", count=6, oldest=NOW - 7_400, href="?reason=malformed"),
        ),
        pager=Pager(next="?after=12"),
    )


def entry_page(shell: Shell, payload: bytes = PAYLOAD, content_type: str = "application/json") -> EntryPage:
    """Return the page of one entry, with attempts before and after a replay."""
    attempts = tuple(
        Attempt(
            number=index % 4 + 1,
            at=NOW - 6_400 + index * 790,
            kind=OutcomeKind.TIMEOUT_TOTAL if index == 2 else OutcomeKind.HTTP_5XX,
            status=None if index == 2 else 503,
            duration_s=15.0 if index == 2 else 4.18,
            wait_s=None if index % 4 == 3 else 30.0 * 4 ** (index % 4),
            replay=index // 4,
        )
        for index in range(8)
    )
    return EntryPage(
        shell=shell,
        line=LINES[2],
        event_id=EVENT,
        delivery_id=f"{EVENT}.{FAILING.subscription_id}",
        arrived_at=NOW - 6_401,
        payload=payload,
        size_bytes=len(payload),
        content_type=content_type,
        headers=(
            ("tenant", "acme"),
            ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
            ("x-publisher", "shop-api/4.2.1"),
        ),
        attempts=attempts,
        forgotten_attempts=4,
    )


def resend_page(shell: Shell) -> ResendPage:
    """Return the question before a replay by filter."""
    return ResendPage(
        shell=shell,
        chosen=ParkedFilter(tenant="acme", since="2h"),
        total=218,
        sends=(DryCount(label="acme/orders", count=200), DryCount(label="acme/shop", count=12)),
        stays=(DryCount(label="malformed: it never became an event", count=6),),
    )


def job(state: str = "running") -> JobLine:
    """Return a job that is half done."""
    return JobLine(
        id="job_5b1e0c9fa273",
        state=state,
        origin="operator",
        filter="tenant acme, parked since 2h",
        created=NOW - 6,
        updated=NOW - 1,
        replayed=126,
        refused=0,
        total=212,
        rate_per_s=20.0,
        worker="worker-2.7c41",
    )


def jobs_page(shell: Shell) -> JobsPage:
    """Return the list of jobs."""
    return JobsPage(
        shell=shell,
        lines=(
            job(),
            JobLine(
                id="job_aa93c1177fe0", state="paused", origin="operator", filter="reason disabled",
                created=NOW - 5_000, updated=NOW - 4_400, replayed=11, refused=2, total=44, rate_per_s=5.0,
                detail="hooli/legacy is disabled",
            ),
            JobLine(
                id="job_0c2d58e6bb19", state="done", origin="automatic", filter="exhausted, expired",
                created=NOW - 30_000, updated=NOW - 29_000, replayed=1_204, refused=0, total=1_204,
            ),
            JobLine(
                id="job_f01b77d0a3c4", state="cancelled", origin="schedule", filter="",
                created=NOW - 200_000, updated=NOW - 199_000, replayed=310, refused=9, rate_per_s=10.0,
            ),
        ),
    )  # fmt: skip


def job_page(shell: Shell) -> JobPage:
    """Return the page of the job that runs."""
    return JobPage(shell=shell, line=job())
