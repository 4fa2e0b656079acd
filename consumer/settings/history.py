"""The section ``[history]``: which steps are kept, for how long, and how much of the answers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from consumer.core.history.records import ANSWER_BYTES
from consumer.core.schema import Section

DAY_S = 86_400.0


class HistorySettings(Section):
    """The history of attempts and ends of deliveries: `history.db` in the state folder, or PostgreSQL."""

    keep: Literal["off", "failures", "all"] = "all"
    """all: every attempt and every end. failures: only attempts that failed, later attempts of their
    deliveries, and deliveries that were deferred, parked, cancelled or replayed. off: nothing."""
    max_age_s: Annotated[float, Field(ge=60, le=366 * DAY_S)] = DAY_S
    """Age at which a row is deleted."""
    max_rows: Annotated[int, Field(ge=1_000, le=1_000_000_000)] = 5_000_000
    """Most rows; the oldest are deleted first."""
    answers: bool = True
    """Keep the start of each answer and its content type; answers may contain personal data."""
    answer_bytes: Annotated[int, Field(ge=1, le=16_384)] = ANSWER_BYTES
    """Bytes that are kept of an answer, within [sending] max_response_bytes."""

    def keeps_answers(self) -> bool:
        """Return whether rows contain answers."""
        return self.answers and self.keep != "off"
