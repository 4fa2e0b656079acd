"""Ask an endpoint now and then that was disabled since it took nothing for days; a success enables it again.

Data flow: Registry (disabled ones) -> a signed webhook of our own, one at a time -> outcome -> store. Off
unless ``[sending] probe_disabled_s`` is set. What a 410, the endpoint's own word or a hand disabled stays so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from consumer.core.classify import is_success
from consumer.core.errors import LeveretError
from consumer.core.subscription import Subscription
from consumer.core.trial import make_trial
from consumer.flow.registry import Registry
from consumer.flow.world import World
from consumer.ports import Store

LOOK_S = 5.0  #: how often it is looked whose time has come
TEXT = "A probe: this endpoint took nothing for days and was disabled. A 2xx enables it again."
RANDOM_BYTES = 10  #: of the id of a probe


class SlowProbe:
    """The slow probe of one worker; of several workers one probes."""

    def __init__(
        self, world: World, registry: Registry, store: Store, every_s: float | None, leads: Callable[[], bool]
    ) -> None:
        """Bind to the flow.

        Args:
            world: The ports.
            registry: Of the subscriptions.
            store: Where one is enabled.
            every_s: Between two probes of an endpoint; None: none is probed.
            leads: Says whether it is this worker that probes.
        """
        self._world = world
        self._registry = registry
        self._store = store
        self._every_s = every_s
        self._leads = leads
        self._due: dict[str, float] = {}  #: subscription id -> monotonic seconds of its next probe

    async def run(self) -> None:
        """Probe for ever; a bug here stops nothing else."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except Exception as error:
                self._world.observe.task_failed("slow probe", error)

    async def look(self) -> None:
        """Probe those whose time has come, one after the other."""
        every_s = self._every_s
        if every_s is None:
            return
        gone = {subscription.id: subscription for subscription in self._registry.gone()}
        self._due = {key: at for key, at in self._due.items() if key in gone}
        for key, subscription in gone.items():
            now, sample = self._world.clock.monotonic(), self._world.sample()
            due = self._due.setdefault(key, now + every_s * sample)  # after a start at any time of it
            if now < due:
                continue
            self._due[key] = now + every_s
            if self._leads() and not self._registry.doubted():
                await self._probe(subscription)

    async def _probe(self, subscription: Subscription) -> None:
        world = self._world
        random = world.random_bytes(RANDOM_BYTES)
        trial = make_trial(subscription, world.bounds.user_agent, world.clock.now(), random, TEXT)
        outcome = await world.sender.send(trial.request)
        taken = is_success(outcome) and outcome.control is None
        world.observe.said(
            "endpoint.probed",
            tenant=subscription.tenant,
            subscription_id=subscription.id,
            kind=outcome.kind.value,
            status=outcome.status,
        )
        if taken:
            try:
                await self._store.revive(subscription.id)
            except (LeveretError, OSError) as error:  # the next probe finds it well again
                world.observe.store_failed("write", error)
