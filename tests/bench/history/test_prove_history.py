"""The proofs of the history: what they promise, their arithmetic, and the retention in small."""

from __future__ import annotations

from pathlib import Path

from bench.history import retention, trace
from bench.history.faithful import LOST_S, compare
from bench.prove import Bench, run_proof
from bench.prove_history import PROOFS
from bench.sink import Seen
from consumer.core.history.records import HistoryRow

ISSUE_TABLE = {
    "history_cost_sqlite": "≥ 0.90",
    "history_cost_postgres": "≥ 0.90",
    "history_wrong": "0",
    "trace_ms": "≤ 200",
    "retention_loop_ms": "≤ 50",
    "retention_write_ms": "≤ 500",
    "store_gone_undelivered": "0",
    "unrecorded_error": "0",
}
PAIR = ("e", "a")
KILL = 1_000.0


def test_the_proofs_have_the_promised_names_and_goals() -> None:
    """Every figure of the table is measured, against its goal."""
    assert ISSUE_TABLE.items() <= {g.name: g.text for proof in PROOFS for g in proof.goals}.items()


def row(number: int, at: float, status: int = 200, kind: str = "ok") -> HistoryRow:
    """Return the row of an attempt that took 100 ms."""
    return HistoryRow(at, "attempt", "e", number=number, status=status, kind=kind, latency_ms=100.0)


def seen(attempt: int, began: float, status: int = 200) -> Seen:
    """Return a request as the receiver logged it."""
    return Seen(
        path="a", id="e", attempt=attempt, status=status, began=began, ended=began, digest="", verified=False
    )


def test_a_row_is_right_only_if_it_is_like_its_request() -> None:
    """Status, kind, time and number; each difference is found."""
    good = [row(1, 10.0, 503, "http_5xx"), row(2, 20.0)]
    requests = [seen(1, 10.02, 503), seen(2, 20.02)]
    assert (compare({PAIR: good}, {PAIR: requests}, KILL).right, compare({}, {}, KILL).right) == (2, 0)

    for bad in (
        [good[0], row(3, 20.0)],
        [good[0], row(2, 20.0, 500, "http_5xx")],
        [good[0], row(2, 20.0, 200, "http_5xx")],
        [good[0], row(2, 25.0)],
        [good[0]],
        [*good, row(2, 20.0)],
    ):
        assert compare({PAIR: bad}, {PAIR: requests}, KILL).wrong


def test_a_row_may_be_missing_only_shortly_before_the_kill() -> None:
    """It is counted apart; a chain that begins anew repeats a number."""
    late = [seen(1, KILL - 0.1), seen(2, KILL + 1)]

    found = compare({PAIR: [row(1, KILL + 0.99)]}, {PAIR: late}, KILL)

    assert (found.lost, found.right, found.wrong) == (1, 1, [])
    assert compare({}, {PAIR: [seen(1, KILL - LOST_S - 0.1)]}, KILL).wrong


async def test_the_retention_proof_in_small(tmp_path: Path) -> None:
    """Both databases delete some thousand rows beside writes, and none of the old rows is left."""
    bench = Bench(folder=tmp_path / "run", scale=0.002)

    figures = {figure.name: figure for figure in await run_proof(retention.PROOF, bench)}

    assert {figure.n for figure in figures.values()} == {2}
    assert all(figure.value is not None and figure.value > 0 for figure in figures.values())


async def test_the_trace_proof_in_small(tmp_path: Path) -> None:
    """Each of the events is found whole in both databases, among some thousand rows."""
    bench = Bench(folder=tmp_path / "run", scale=0.001)

    [figure] = await run_proof(trace.PROOF, bench)

    assert figure.n == 2 * 3
    assert figure.value is not None
    assert figure.value > 0
    assert bench.notes["trace_sqlite_rows"] == 96 * trace.EVENT_ROWS
