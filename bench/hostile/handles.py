"""Count attempts that are spent while the worker has no file handles, by no fault of the endpoint.

One daemon for each attack, with a limit that the attack would exhaust. Every endpoint is healthy, so each
failed attempt is a burned one, except ``local`` ones, which do not count. Meanwhile /readyz and
/metrics have to answer.
"""

from __future__ import annotations

import asyncio
import re
import resource
import urllib.error
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from bench.broker import Broker
from bench.hostile.attacks import Attack, Stage
from bench.hostile.handle_attacks import ATTACKS
from bench.hostile.innocent import TENANT, Innocent
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from tests.support.processes.children import fetch, wait_until
from tests.support.processes.daemon import Daemon

LEAD_S = 1.0
POLL_S = 0.2
ANSWER_S = 5.0
READY_S = 90.0
SPARED = frozenset({"ok", "local"})  #: outcomes that burn no attempt

GOALS = (Goal(name="handles_attempts_burned", text="0", unit="attempts", n=1_000),)

_ATTEMPTS = re.compile(r'^leveret_attempts_total\{[^}]*kind="(\w+)"[^}]*\} (\S+)$', re.MULTILINE)


class Poll:
    """Asks /readyz and /metrics again and again, each by a connection of its own."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self.asked = 0
        self.unanswered = 0

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            for page in ("readyz", "metrics"):
                self.asked += 1
                try:
                    await asyncio.to_thread(fetch, f"http://{self._daemon.listen}/{page}", timeout_s=ANSWER_S)
                except urllib.error.HTTPError:  # ``/readyz`` reports that it is not ready
                    continue
                except OSError:
                    self.unanswered += 1
            await asyncio.sleep(POLL_S)


def outcomes(daemon: Daemon) -> Counter[str]:
    """Return how many attempts had each outcome so far."""
    page = fetch(f"http://{daemon.listen}/metrics").decode()
    return Counter({kind: int(float(count)) for kind, count in _ATTEMPTS.findall(page)})


async def one_way(stage: Stage, attack: Attack) -> tuple[Counter[str], Poll]:
    """Make *attack* while the innocent tenant publishes; return all outcomes, and the answered pages."""
    poll = Poll(stage.daemon)
    polling = asyncio.ensure_future(poll.run())
    seconds = max(7.0, attack.seconds) * stage.bench.scale
    leg = asyncio.ensure_future(stage.innocent.leg(attack.name, max(1.0, seconds)))
    await asyncio.sleep(LEAD_S * stage.bench.scale)
    await attack.strike(stage)
    await leg
    polling.cancel()
    with suppress(OSError):
        await asyncio.to_thread(lambda: asyncio.run(wait_until(stage.daemon.ready, READY_S)))
    return await asyncio.to_thread(outcomes, stage.daemon), poll


async def prove(bench: Bench) -> Sequence[Measured]:
    """Make each attack; parked and lost deliveries count as burned too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard > 0 else max(soft, 8_192), hard))
    burned, unanswered = 0, 0
    async with Broker(bench) as broker, Sink(bench.folder, {TENANT: "/ok/innocent"}) as sink:
        innocent = Innocent(broker.url, sink)
        for attack in ATTACKS:
            daemon = Daemon(bench.folder, broker.url, attack.settings, handles=attack.handles)
            async with daemon:
                stage = Stage(bench, broker, daemon, innocent)
                await daemon.subscribe([innocent.entry(), *attack.subscriptions(stage)])
                await daemon.start()
                seen, poll = await one_way(stage, attack)
            burned += sum(count for kind, count in seen.items() if kind not in SPARED)
            unanswered += poll.unanswered
            bench.note(f"handles_{attack.name}", dict(seen))
            bench.say(f"{attack.name}: {poll.unanswered} of {poll.asked} pages unanswered")
        account = await innocent.account(Daemon(bench.folder, broker.url, name="reader"))
    bench.note("handles_innocent", [account.published, account.lost, account.doubled, account.parked])
    bench.note("handles_unanswered", unanswered)
    return [
        Measured(
            name="handles_attempts_burned",
            value=burned + account.lost + account.parked,
            n=account.published,
            valid=not unanswered,
        )
    ]


PROOF = Proof("handles", GOALS, prove)
