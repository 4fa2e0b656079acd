"""The section ``[parked]``: replays of parked entries without an operator. Both are off by default."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from consumer.core.message.jobs import AutoReplay
from consumer.core.schema import Section

DAY_S = 86_400.0


class ParkedSettings(Section):
    """Replays of parked entries without an operator: only entries that were parked exhausted or expired, and
    only while the breaker of their endpoint is closed; none while [sending] mode is dry."""

    auto_replay: bool = False
    """Replay an entry once auto_replay_cooldown_s have passed since it was parked. Source: S1-16."""
    auto_replay_cooldown_s: Annotated[float, Field(ge=60, le=30 * DAY_S)] = 3600.0
    """Time in the parked queue before the automatic replay; also the time between two such replays."""
    scheduled_replay_s: Annotated[float, Field(ge=60, le=30 * DAY_S)] | None = None
    """Time between two scheduled passes, each of which replays such entries whatever their age; absent: no
    passes. Source: S0-8."""
    max_replays: Annotated[int, Field(ge=1, le=1_000)] = 3
    """An entry that was replayed so often, by anybody, is left to an operator."""
    rate_per_s: Annotated[float, Field(ge=0.01, le=100_000)] = 10.0
    """Entries that such a replay sends a second."""

    def rules(self, *, is_dry: bool = False) -> AutoReplay:
        """Return the section as the core reads it; a dry worker replays nothing without an operator."""
        return AutoReplay(
            cooldown_s=self.auto_replay_cooldown_s if self.auto_replay else None,
            scheduled_s=self.scheduled_replay_s,
            max_replays=self.max_replays,
            rate_per_s=self.rate_per_s,
            is_dry=is_dry,
        )
