"""The attack of item 3: every kind of forgery, while the innocent tenant publishes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.hostile.attacks import Attack, Stage
from tests.support.hostile.forged import FORGERIES, NAMES, publish
from tests.support.hostile.messages import HOSTILE
from tests.support.processes.daemon import retry, subscription

KINDS = [forgery for forgery in FORGERIES if forgery.exchange == NAMES.events]  #: there are no sources here


async def _strike(stage: Stage) -> None:
    """Publish every kind: some copies expire where a lane is slow enough, and one does not."""
    for forgery in KINDS:
        await publish(stage.broker.url, [forgery], 3, expiration_ms=1)
        await publish(stage.broker.url, [forgery], 1)


def _subscriptions(stage: Stage) -> Sequence[Mapping[str, object]]:
    own = {"tenant": HOSTILE, "retry": retry(max_attempts=1)}
    return [subscription("forged", f"{stage.answers}/heads/ok", **own)]


ATTACKS: Sequence[Attack] = (Attack(name="forgery", item=3, strike=_strike, subscriptions=_subscriptions),)
