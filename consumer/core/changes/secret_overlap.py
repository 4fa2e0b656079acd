"""How long a replaced secret goes on signing beside the new one, and when it may be given up.

Data flow: secrets before + secrets after + time -> the moments of replacement -> StoredEntry; a change that
would give up a secret within its grace is refused, since its receivers would reject every webhook.

Source: SW-32 (grace 24 h, at most 10 secrets).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from consumer.core.errors import ConfigError
from consumer.core.subscription.entry import SECRETS_MAX

GRACE_S: Final = 86_400.0
"""Receivers get this long to change over to the new secret."""

ALWAYS: Final = math.inf
"""A time after every grace, for who does not look at the clock."""


def replaced_at(
    before: Sequence[str], times: Sequence[int], after: Sequence[str], now: float
) -> tuple[int, ...]:
    """Return when each secret of *after* was replaced, in Unix seconds; 0 for the newest, and where unknown.

    Args:
        before: The secrets until now, newest first.
        times: When each of them was replaced.
        after: The secrets from now on, newest first.
        now: Unix seconds.
    """
    known = {secret: time for secret, time in zip(before, times, strict=False) if time}
    older = set(before[1:])
    at = 0 if now == ALWAYS else int(now)
    moments = tuple(
        0 if not place else known.get(secret, 0 if secret in older else at)
        for place, secret in enumerate(after)
    )
    return moments if any(moments) else ()


def refuse_early_end(before: Sequence[str], times: Sequence[int], after: Sequence[str], now: float) -> None:
    """Check that no secret has to go for a new one while its receivers may still need it.

    A secret that is taken out and replaced by nothing is no matter of this: somebody ended its overlap.

    Args:
        before: The secrets until now, newest first.
        times: When each of them was replaced.
        after: The secrets from now on, newest first; may be more than the limit.
        now: Unix seconds.

    Raises:
        ConfigError: one has; says when the grace of the oldest ends.
    """
    if now == ALWAYS or not set(after) - set(before):
        return
    moments = dict(zip(before, times, strict=False))
    given_up = [secret for secret in before if secret not in after[:SECRETS_MAX]]
    needed = [secret for secret in given_up if _ends(moments.get(secret, 0)) > now]
    if not needed or len({*after, *needed}) <= SECRETS_MAX:
        return
    since = moments.get(needed[-1], 0)
    when = f"at {_text(_ends(since))}, 24 h after it was replaced" if since else "at a time that is unknown"
    raise ConfigError(
        f"secrets: {SECRETS_MAX} sign already, and the grace of the oldest ends {when}; wait until then, "
        "or end the overlap now with `leveret subscriptions rotate-secret --drop-old`"
    )


def _ends(since: int) -> float:
    return since + GRACE_S if since else ALWAYS


def _text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
