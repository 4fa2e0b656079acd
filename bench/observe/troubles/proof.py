"""Ten troubles, one after the other: is the culprit named, does the alert come, does the runbook end it?

For each trouble the overview is asked every two seconds, from before it began until it names the culprit.
"""

from __future__ import annotations

import asyncio
import re
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from bench.observe.troubles.cases import troubles
from bench.observe.troubles.customers import Customer
from bench.observe.troubles.overview import Naming, naming
from bench.observe.troubles.runbook import Line, chosen, filled, run, section
from bench.observe.troubles.stage import Stage, staged
from bench.observe.troubles.trouble import Repair, Take, Trouble
from bench.prove import Bench, Goal, Measured, Proof

NAMED_S = 60.0  #: from the begin of the trouble until the overview names the culprit
SLACK_S = 15.0  #: beside the hold of a rule: two scrapes, an evaluation, Alertmanager's second
ENDED_S = 90.0  #: from the last command until everything is well
LOOK_S = 2.0  #: between two looks at the overview
WARM_S = 10.0
CALM_S = 90.0  #: until the culprit, if it was in that trouble before, is well
COUNT = 10
TRACED = 3  #: of the missing events

GOALS = (
    Goal(name="cause_not_named", text="0", unit="troubles", n=COUNT),
    Goal(name="troubles_unalerted", text="0", unit="troubles", n=COUNT),
)


@dataclass(slots=True)
class Result:
    """The measurements of one trouble.

    Attributes:
        named_s: From its begin until the overview named the culprit; None: it did not in time.
        where: The panel and the column.
        alert_s: From its begin until a receiver had the alert; None: none came in time.
        hold_s: Of the alert's rule.
        ended_s: From the last command until everything was well; None: it was not.
        faults: Everything that was wrong.
        commands: Those that were run.
    """

    named_s: float | None = None
    where: str = ""
    alert_s: float | None = None
    hold_s: float = 0.0
    ended_s: float | None = None
    faults: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)

    @property
    def is_alerted(self) -> bool:
        """Whether the alert came, and the runbook ended the trouble."""
        return self.alert_s is not None and self.ended_s is not None and not self.faults


class Night:
    """One trouble, from its begin to its end."""

    def __init__(self, stage: Stage, trouble: Trouble) -> None:
        self.result = Result()
        self._stage = stage
        self._trouble = trouble
        self._culprit = trouble.culprit(stage)
        self._began = 0.0  #: monotonic seconds
        self._began_at = datetime.now(UTC)
        self._alert: Mapping[str, Any] = {}
        self._printed = ""
        self._owed: Sequence[tuple[Customer, int]] = ()

    async def pass_by(self) -> None:
        """Begin the trouble, look, act as an operator, and see it end."""
        trouble, stage, result = self._trouble, self._stage, self.result
        if trouble.prepare is not None:
            await trouble.prepare(stage)
        await asyncio.sleep(WARM_S if stage.bench.scale >= 1 else 1)  # some scrapes without the trouble
        calm = time.monotonic() + CALM_S
        while (before := await self._naming()) is not None:
            if time.monotonic() > calm:
                raise TimeoutError(f"named before the trouble: {before}")
            await asyncio.sleep(1)
        self._began, self._began_at = time.monotonic(), datetime.now(UTC)
        await trouble.begin(stage)
        await asyncio.gather(self._until_named(), self._until_alerted())
        if result.alert_s is None:
            return
        await self._act(section(str(self._alert["annotations"]["runbook_url"]).rpartition("#")[2]))
        await self._until_ended()

    async def _naming(self) -> Naming | None:
        prometheus, cause = self._stage.prometheus, self._trouble.cause
        return await asyncio.to_thread(naming, prometheus, self._culprit, cause)

    def _passed_s(self) -> float:
        return round(time.monotonic() - self._began, 1)

    async def _until_named(self) -> None:
        result, say = self.result, self._stage.bench.say
        while self._passed_s() < NAMED_S:
            found, passed_s = await self._naming(), self._passed_s()
            if found is not None and passed_s <= NAMED_S:
                result.named_s = passed_s
                result.where = f"{found.panel}: {found.column} = {found.value:.3g} {found.cause}".rstrip()
                say(f"named after {passed_s} s: {result.where}")
                return
            await asyncio.sleep(LOOK_S)
        say(f"not named within {NAMED_S} s")

    async def _until_alerted(self) -> None:
        rule = self._stage.rule(self._trouble.alert)
        self.result.hold_s = float(re.sub(r"\D", "", rule.get("for", "0")))
        receiver = "pager" if rule["labels"]["severity"] == "critical" else "chat"
        timeout_s = NAMED_S + self.result.hold_s + SLACK_S
        try:
            self._alert = await self._stage.inbox.until(receiver, self._is_ours, timeout_s)
        except TimeoutError:
            self.result.faults.append(f"no alert within {timeout_s} s")
            return
        self.result.alert_s = self._passed_s()
        text = self._alert["annotations"]["description"]
        self._stage.bench.say(f"alerted after {self.result.alert_s} s: {text}")
        if self._trouble.alert_cause and f"The cause is {self._trouble.cause}." not in text:
            self.result.faults.append(f"the alert names another cause: {text}")

    def _is_ours(self, alert: Mapping[str, Any]) -> bool:
        """Return whether an alert is that of the trouble, of its culprit, and began with it.

        The label of a node is an address; there is one node alone.
        """
        labels, label = alert["labels"], self._trouble.label
        culprits = (self._culprit, self._culprit.partition("/")[0])
        began_at = datetime.fromisoformat(alert.get("startsAt") or alert["activeAt"])
        return (
            labels["alertname"] == self._trouble.alert
            and (label == "instance" or labels.get(label) in culprits)
            and began_at >= self._began_at
        )

    async def _act(self, lines: Sequence[Line]) -> None:
        """Follow the section, and let the owner of the cause repair it in time."""
        trouble, result = self._trouble, self.result
        if trouble.alert_cause:
            chosen(lines, trouble.cause)
        found: str | None = None  # the output before the repair
        for step in trouble.steps:
            if isinstance(step, Repair):
                found = self._printed
                await trouble.repair(self._stage)
                continue
            for command in chosen(lines, step.label, step.start):
                await self._run(command, step)
        wanted = trouble.found or self._culprit
        if wanted not in (self._printed if found is None else found):
            result.faults.append(f"no command before the repair prints {wanted!r}")

    async def _run(self, command: str, step: Take) -> None:
        command = filled(command, self._alert["labels"])
        self.result.commands.append(command)
        done = await run(command, self._stage.environment(), self._stage.hidden)
        self._printed += done.output
        self._stage.bench.say(f"$ {command} -> {done.code}")
        fails = done.code != 0 and not (step.may_fail and done.code == 1 and " test " in command)
        if fails or "Traceback" in done.output:
            self.result.faults.append(f"{command}: {done.code}: {done.output[-800:]}")

    async def _until_ended(self) -> None:
        """Wait until the endpoints took every event, and the alert has been resolved."""
        customers = self._trouble.customers or self._stage.ordinary
        self._owed = [(each, len(each.published)) for each in customers]
        began, left = time.monotonic(), await asyncio.to_thread(self._left)
        while left and time.monotonic() - began < ENDED_S:
            await asyncio.sleep(1)
            left = await asyncio.to_thread(self._left)
        if left:
            self.result.faults.append(f"not ended: {left}")
            self.result.faults += await self._traces()
        else:
            self.result.ended_s = round(time.monotonic() - began, 1)
            self._stage.bench.say(f"ended after {self.result.ended_s} s")

    async def _traces(self) -> Sequence[str]:
        """Return the worker's status, and the traces of the first missing events."""
        missing = [event for customer, before in self._owed for event in customer.missing(before)]
        commands = [["status"], *(["trace", event] for event in missing[:TRACED])]
        runs = [self._stage.daemon.cli(*each) for each in commands]
        return list(map(str, await asyncio.gather(*runs, return_exceptions=True)))

    def _left(self) -> Sequence[str]:
        """Return everything that is not well yet."""
        stage = self._stage
        missing = [(each.tenant, each.missing(before)) for each, before in self._owed]
        found = [f"{len(events)} events of {tenant} are missing" for tenant, events in missing if events]
        firing = [each for each in stage.prometheus.alerts() if self._is_ours(each)]
        receivers = ("pager", "chat")
        notices = [each for name in receivers for each in stage.inbox.alerts(name) if self._is_ours(each)]
        if firing:
            found.append("the alert is active")
        if notices[-1]["status"] != "resolved":
            found.append("the receiver does not know the end of the alert")
        return found


async def suffered(stage: Stage, trouble: Trouble) -> Result:
    """Go through one trouble; whatever happens, its cause is repaired at the end."""
    stage.bench.say(f"--- {trouble.name}")
    night = Night(stage, trouble)
    try:
        await night.pass_by()
    except Exception:
        night.result.faults.append(traceback.format_exc(limit=-4))
    finally:
        await trouble.repair(stage)
    return night.result


def selected(bench: Bench) -> Sequence[Trouble]:
    """Return the troubles of the run.

    Raises:
        LookupError: a case is unknown.
    """
    all_ten = troubles()
    unknown = set(bench.cases) - {each.name for each in all_ten}
    if unknown:
        raise LookupError(f"no such case: {unknown}; take {[each.name for each in all_ten]}")
    wanted = [each for each in all_ten if not bench.cases or each.name in bench.cases]
    return [each for each in wanted if not (bench.amqp_url and each.own_broker)]


async def prove(bench: Bench) -> Sequence[Measured]:
    """Go through all troubles on one stage."""
    chosen_ones = selected(bench)
    results: dict[str, Result] = {}
    async with staged(bench, [customer for each in chosen_ones for customer in each.customers]) as stage:
        await stage.prometheus.until("leveret_ready == 1")
        for trouble in chosen_ones:
            results[trouble.name] = await suffered(stage, trouble)
            bench.note(f"trouble_{trouble.name}", asdict(results[trouble.name]))
        left = [each["labels"]["alertname"] for each in stage.prometheus.alerts()]
    bench.note("alerts_at_the_end", left)
    unnamed = [name for name, result in results.items() if result.named_s is None]
    unalerted = [name for name, result in results.items() if not result.is_alerted]
    bench.note("troubles_not_named", unnamed)
    bench.note("troubles_without_alert_or_end", unalerted)
    return [
        Measured(name="cause_not_named", value=len(unnamed), n=len(results)),
        Measured(name="troubles_unalerted", value=len(unalerted), n=len(results)),
    ]


PROOF = Proof("troubles", GOALS, prove)
