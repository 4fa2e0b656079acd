"""The proofs of parked entries, in small."""

from __future__ import annotations

from pathlib import Path

from bench.history import parked_list
from bench.history.parked_account import readers, settled
from bench.history.parked_ground import TENANTS, amiss, ground
from bench.prove import Bench


async def test_listings_groups_and_shows_are_measured(tmp_path: Path, vhost: str) -> None:
    """S1-13: complete and in order, in small."""
    found = await parked_list.prove(Bench(folder=tmp_path, scale=0.01, amqp_url=vhost))

    assert [one.name for one in found] == ["parked_list_s", "parked_group_s", "parked_show_s"]
    assert all(one.valid and one.n == 2 for one in found)


async def test_each_entry_is_accounted_once(tmp_path: Path, vhost: str) -> None:
    """S1-5, fault 80: beside commands that look, in small; the job is tried by a test of its own."""
    bench = Bench(folder=tmp_path, amqp_url=vhost)

    async with ground(bench, 5 * TENANTS) as here:
        found = await readers(bench, here) + await settled(bench, here, here.tenant_of)
        short = await settled(bench, here, list(here.tenant_of)[1:])

    assert (found, short) == (0, 2), bench.notes


def test_what_is_amiss_is_counted() -> None:
    """Missing, doubled and strange entries count one each."""
    assert amiss(["a", "b", "c"], ["a", "b", "c"]) == 0
    assert amiss(["a", "b", "c"], ["a", "a", "c", "d"]) == 3
