"""Names: one prefix, and only characters that a topic key can contain."""

from __future__ import annotations

import pytest

from topology.names import Names
from topology.plan import TopologySpec, build_plan


def test_the_default_names_are_the_documented_ones() -> None:
    """The default names equal the documented ones."""
    names = Names()

    assert (names.events, names.parked, names.dlx) == ("leveret.events", "leveret.parked", "leveret.dlx")
    assert (names.lane(0), names.due_queue(3), names.spill(12)) == (
        "leveret.lane.00",
        "leveret.due.03",
        "leveret.spill.12",
    )
    assert (names.rung(0.25), names.rung(86_400)) == ("leveret.wait.250", "leveret.wait.86400000")
    assert names.inbox("shop") == "leveret.inbox.shop"
    assert names.wait_key(1.5, names.due_queue(0)) == "1500.leveret.due.00"
    assert names.direct_key(names.replay) == "0.leveret.replay"


def test_queues_that_only_we_publish_to() -> None:
    """Fault 16: these queues contain no message of a producer."""
    names = Names()
    spec = TopologySpec()
    lanes = [*map(names.lane, range(spec.lanes)), names.died]
    producers = [*lanes, *map(names.spill, range(spec.spill_queues))]
    ends = [names.overflow, names.parked, names.expired, names.store]

    own = {queue.name for queue in build_plan(spec).queues if names.is_internal(queue.name)}

    assert own == {queue.name for queue in build_plan(spec).queues} - {*producers, *ends}
    assert not names.is_internal(names.inbox("due"))


@pytest.mark.parametrize("prefix", ["", "a..b", ".a", "a.", "a b", "a*", "#", "é", "x" * 65, "amq", "amq.x"])
def test_a_prefix_that_cannot_work_is_refused(prefix: str) -> None:
    """A prefix becomes part of topic keys, so wildcards, empty words and reserved names are refused."""
    with pytest.raises(ValueError, match="prefix"):
        Names(prefix)


@pytest.mark.parametrize("other", ["leveret2", "leveret.wait", "leveret.due"])
def test_two_prefixes_share_no_name(other: str) -> None:
    """Two instances on one broker share no name, even if one prefix begins with the other."""
    mine, theirs = build_plan(TopologySpec()), build_plan(TopologySpec(prefix=other))

    assert not {queue.name for queue in mine.queues} & {queue.name for queue in theirs.queues}
    assert not {part.name for part in mine.exchanges} & {part.name for part in theirs.exchanges}
