"""How long an operator waits for 10,000 parked entries: listed, counted, and one of them shown.

Each time is that of the whole command, from the start of its process to its end; each figure is the worst of
five. A listing that lacks an entry or is out of order makes the figure invalid.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.history.parked_ground import ENTRIES, TENANTS, Answer, Ground, amiss, ground
from bench.prove import Bench, Goal, Measured, Proof

RUNS = 5

GOALS = (
    Goal(name="parked_list_s", text="≤ 1", unit="s", n=RUNS),
    Goal(name="parked_group_s", text="≤ 1", unit="s", n=RUNS),
    Goal(name="parked_show_s", text="≤ 2", unit="s", n=RUNS),
)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Measure the three commands."""
    runs = bench.count(RUNS, least=2)
    async with ground(bench, bench.count(ENTRIES, least=TENANTS)) as here:
        lists = [await here.parked("list", *kind) for kind in _kinds(runs)]
        groups = [
            await here.parked("list", "--group-by", "tenant", "--group-by", "status", "--json")
            for _ in range(runs)
        ]
        ids = sorted(here.tenant_of)
        chosen = [ids[len(ids) * number // runs] for number in range(runs)]
        shows = [await here.parked("show", entry_id, "--json") for entry_id in chosen]
        shown = [
            answer.code == 0 and list(answer.ids()) == [i] for answer, i in zip(shows, chosen, strict=True)
        ]
        return [
            _measured("parked_list_s", lists, valid=all(_is_exact(here, answer) for answer in lists)),
            _measured("parked_group_s", groups, valid=all(_is_counted(here, answer) for answer in groups)),
            _measured("parked_show_s", shows, valid=all(shown)),
        ]


def _kinds(runs: int) -> Sequence[Sequence[str]]:
    return [("--json",) if number % 2 else () for number in range(runs)]


def _is_exact(here: Ground, answer: Answer) -> bool:
    """Return whether a listing has every entry once, in order, and warns of nothing."""
    if answer.code or answer.err:
        return False
    if "--json" not in answer.words:
        lines = answer.out.splitlines()[1:]
        return not amiss(here.tenant_of, [line.split()[0].decode() for line in lines])
    rows = answer.rows()
    keys = [(str(row["parked_at"]), str(row["id"])) for row in rows]
    return keys == sorted(keys) and not amiss(here.tenant_of, answer.ids())


def _is_counted(here: Ground, answer: Answer) -> bool:
    counts = {str(row["tenant"]): row["count"] for row in answer.rows()}
    return counts == {owner: len(here.of(owner)) for owner in set(here.tenant_of.values())}


def _measured(name: str, answers: Sequence[Answer], *, valid: bool) -> Measured:
    worst = max(answer.seconds for answer in answers)
    return Measured(name=name, value=round(worst, 3), n=len(answers), valid=valid)


PROOF = Proof("parked_list", GOALS, prove)
