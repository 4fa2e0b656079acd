"""Probe the endpoints that were disabled after days without a success; a success enables them again.

Data flow: Subscriptions (disabled ones) -> a signed webhook of our own, one at a time -> outcome -> store.
Off unless ``[sending] probe_disabled_s`` is set. An endpoint that a 410, a control header or an operator
disabled stays disabled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from consumer.core.errors import LeveretError
from consumer.core.retry.outcomes import is_success
from consumer.core.subscription.subscription import Subscription
from consumer.core.subscription.trial import make_trial
from consumer.flow.base.context import Context
from consumer.flow.observe.reporter import about
from consumer.flow.store.subscriptions import Subscriptions
from consumer.ports import Store

LOOK_S = 5.0  #: distance of the checks whether a probe is due
TEXT = "A probe: this endpoint took nothing for days and was disabled. A 2xx enables it again."
RANDOM_BYTES = 10  #: of the id of a probe


class SlowProbe:
    """The slow probe of one worker; one worker of all probes."""

    def __init__(
        self,
        context: Context,
        subscriptions: Subscriptions,
        store: Store,
        every_s: float | None,
        leads: Callable[[], bool],
    ) -> None:
        """Bind to the flow.

        Args:
            context: The ports.
            subscriptions: Among them the disabled ones.
            store: In which a subscription is enabled again.
            every_s: Between two probes of an endpoint; None: there are no probes.
            leads: Returns whether this worker is the one that probes.
        """
        self._context = context
        self._subscriptions = subscriptions
        self._store = store
        self._every_s = every_s
        self._leads = leads
        self._due: dict[str, float] = {}  #: subscription id -> monotonic seconds of its next probe

    async def run(self) -> None:
        """Probe for ever; an error here stops nothing else."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except Exception as error:
                self._context.observe.task_failed("slow probe", error)

    async def look(self) -> None:
        """Send the probes that are due, one after the other."""
        every_s = self._every_s
        if every_s is None:
            return
        gone = {subscription.id: subscription for subscription in self._subscriptions.gone()}
        self._due = {key: at for key, at in self._due.items() if key in gone}
        for key, subscription in gone.items():
            now, sample = self._context.clock.monotonic(), self._context.sample()
            due = self._due.setdefault(
                key, now + every_s * sample
            )  # after a start, at any time within the interval
            if now < due:
                continue
            self._due[key] = now + every_s
            if self._leads() and not self._subscriptions.doubted():
                await self._probe(subscription)

    async def _probe(self, subscription: Subscription) -> None:
        context = self._context
        random = context.random_bytes(RANDOM_BYTES)
        trial = make_trial(subscription, context.bounds.user_agent, context.clock.now(), random, TEXT)
        outcome = await context.sender.send(trial.request)
        taken = is_success(outcome) and outcome.control is None
        context.observe.said(
            "endpoint.probed",
            **about(subscription),
            kind=outcome.kind.value,
            status=outcome.status,
        )
        if taken:
            try:
                await self._store.revive(subscription.id)
            except (LeveretError, OSError) as error:  # the next probe repeats the success
                context.observe.store_failed("write", error)
