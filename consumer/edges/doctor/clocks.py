"""Read the clocks of other machines: the header Date of an HTTP answer, and PostgreSQL's own time."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime

import asyncpg

from consumer.core.tools.doctor.surroundings import ClockReading

DATE_ERROR_S = 1.5
"""A Date has whole seconds, and some servers renew it once a second."""


def reading_of(of: str, date: str, asked_at: float, received_at: float) -> ClockReading | None:
    """Return the clock that a header Date shows; None if it cannot be read.

    Args:
        of: The machine, for people.
        date: The header. Source: RFC 9110, 5.6.7.
        asked_at: Our Unix seconds before the question.
        received_at: Our Unix seconds after the answer.
    """
    try:
        theirs = parsedate_to_datetime(date).timestamp() + 0.5
    except (ValueError, TypeError, OverflowError):
        return None
    half_s = max(0.0, received_at - asked_at) / 2
    return ClockReading(of, theirs, asked_at + half_s, DATE_ERROR_S + half_s)


async def postgres_reading(url: str, timeout_s: float) -> ClockReading | None:
    """Return the clock of the PostgreSQL server; None if it does not answer, which the store reports."""
    try:
        connection = await asyncpg.connect(url, timeout=timeout_s, command_timeout=timeout_s)
        try:
            asked_at = time.time()
            theirs = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")
            half_s = max(0.0, time.time() - asked_at) / 2
        finally:
            await connection.close(timeout=timeout_s)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError):
        return None
    return ClockReading("PostgreSQL", float(theirs), asked_at + half_s, half_s)
