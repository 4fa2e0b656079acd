"""Who is noisy, from when on, and which spill queue takes them."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.noise import Look, NoiseMeter, NoiseRule, spill_index

RULE = NoiseRule(held=25.6)


def look(held: Mapping[str, int] | None = None, *, others: bool = True) -> Look:
    """A moment in which tenants hold so many deliveries in flight, and no fresh one waits."""
    return Look(held=held or {}, others_wait=others)


def test_ten_seconds_over_a_tenth_make_a_tenant_noisy() -> None:
    """FAULTS 71: not before, and only the one that holds more."""
    meter = NoiseMeter(RULE)

    found = [meter.look(look({"a": 26, "b": 25}), 0.5, ()) for _ in range(20)]

    assert found == [[]] * 19 + [["a"]]


def test_nobody_is_noisy_while_nobody_else_waits() -> None:
    """What is idle may be used."""
    meter = NoiseMeter(RULE)

    assert [meter.look(look({"a": 200}, others=False), 1.0, ()) for _ in range(30)] == [[]] * 30


def test_a_backlog_of_one_tenant_hides_who_waits_behind() -> None:
    """FAULTS 71: a quiet tenant in the same lane is not in hand yet; the lane's backlog says so."""
    meter = NoiseMeter(RULE)
    other = Look(held={"a": 200}, backlogged={"b"})
    own = Look(held={"a": 200}, backlogged={"a"})

    assert [meter.look(other, 5.0, ()) for _ in range(3)] == [[], [], []]
    assert [meter.look(own, 5.0, ()) for _ in range(2)] == [[], ["a"]]


def test_a_moment_of_quiet_takes_off_what_a_moment_of_noise_adds() -> None:
    """A burst of nine seconds is none; nor is noise for half of the time."""
    meter = NoiseMeter(RULE)
    for _ in range(9):
        assert meter.look(look({"a": 100}), 1.0, ()) == []
    for _ in range(40):
        assert meter.look(look({"a": 1}), 1.0, ()) == []
        assert meter.look(look({"a": 100}), 1.0, ()) == []
    assert meter.noisy() == 1
    for _ in range(9):
        meter.look(look(), 1.0, ())
    assert meter.noisy() == 0


def test_at_most_four_are_rerouted_the_noisiest_first() -> None:
    """A fifth waits until one came back."""
    meter = NoiseMeter(RULE)
    held = {f"t{n}": 30 + n for n in range(6)}

    assert meter.look(look(held), 10.0, ()) == ["t5", "t4", "t3", "t2"]
    spilled = ["t5", "t4", "t3", "t2"]
    assert meter.look(look(held), 1.0, spilled) == []
    assert meter.look(look(held), 1.0, spilled[1:]) == ["t1"]


@given(st.text(), st.integers(1, 16))
def test_every_worker_names_the_same_spill_queue(tenant: str, queues: int) -> None:
    """Two bindings of a tenant would make two copies of each event: the queue follows from the name."""
    assert 0 <= spill_index(tenant, queues) < queues
    assert spill_index(tenant, queues) == spill_index(str(tenant), queues)
    assert spill_index("acme", 4) == 2
