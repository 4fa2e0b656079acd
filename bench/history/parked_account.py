"""Each parked entry is in exactly one place, whatever commands look at the same time.

Listings, filters, shows and exports run together while another command has the entries in hand. A listing has
every entry; a command that takes entries either has every one of them or is refused. Afterwards the
queue and the index have each entry once. Then a replay job is killed, cancelled and resumed
(:mod:`bench.history.parked_jobs`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from bench.history import parked_jobs
from bench.history.parked_ground import ENTRIES, TENANTS, Answer, Ground, amiss, ground
from bench.prove import Bench, Goal, Measured, Proof

GOALS = (Goal(name="parked_unaccounted", text="0", unit="entries", n=10_000),)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Count the entries that an answer lacks, doubles or invents."""
    entries = bench.count(ENTRIES, least=10 * TENANTS)
    async with ground(bench, entries) as here:
        unaccounted = await readers(bench, here) + await settled(bench, here, here.tenant_of)
    unaccounted += await parked_jobs.unaccounted(bench)
    return [Measured(name="parked_unaccounted", value=unaccounted, n=entries)]


async def readers(bench: Bench, here: Ground) -> int:
    """Let readers run together; return how many entries their answers have amiss."""
    owner, whole = "tenant-03", list(here.tenant_of)
    holder = asyncio.create_task(here.parked("export", "--wait"))
    answers: list[tuple[Answer, Collection[str]]] = []

    async def ask(expected: Collection[str], *words: str) -> None:
        answers.append((await here.parked(*words), expected))

    await asyncio.gather(
        ask(whole, "list", "--json"),
        ask(here.of(owner), "list", "--tenant", owner, "--json"),
        ask(here.of(owner), "list", "--subscription", f"{owner}/to-{owner}", "--json"),
        ask(whole[-1:], "show", whole[-1], "--wait", "--json"),
        ask(whole, "export"),
        ask(here.of(owner), "export", "--tenant", owner, "--wait"),
    )
    answers.append((await holder, whole))
    return sum(judged(bench, answer, expected) for answer, expected in answers)


async def settled(bench: Bench, here: Ground, expected: Collection[str]) -> int:
    """Return how many of the *expected* entries the queue or the index have amiss at the end."""
    exported, listed = await here.parked("export", "--wait"), await here.parked("list", "--json")
    found = judged(bench, exported, expected) + judged(bench, listed, expected)
    if listed.err:
        bench.note("parked_account index", listed.err.strip())
    return found + bool(listed.err)


def judged(bench: Bench, answer: Answer, expected: Collection[str]) -> int:
    """Return how many entries an answer has amiss; a refusal has none."""
    if answer.is_refused:
        return 0
    lost = amiss(expected, answer.ids()) if answer.code == 0 else len(expected)
    if lost:
        words = " ".join(answer.words)
        bench.note(f"parked_account {words}", f"{lost} amiss, exit {answer.code}: {answer.err.strip()}")
    return lost


PROOF = Proof("parked_account", GOALS, prove)
