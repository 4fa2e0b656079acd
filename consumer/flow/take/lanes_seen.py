"""By which way the events of each tenant come: a lane, or a binding around the lanes; who names no tenant.

Data flow: Intake.offer meets a producer's message -> whose turn it takes; Spill and Sharing ask.
"""

from __future__ import annotations

from consumer.core.event.amqp_values import is_absent
from consumer.core.event.decode import DecodeRules, scheduling_tenant

MOST_LANES_KNOWN = 20_000  #: tenants whose lane is remembered


class LanesSeen:
    """What one worker has seen of it.

    Attributes:
        lanes: The lane by which a tenant came last. Only tenant ids are in it, never any text of a producer.
        fresh: Events that came by lanes, since the start.
        nameless: Those of them that name no tenant.
    """

    def __init__(self, rules: DecodeRules) -> None:
        self.lanes: dict[str, str] = {}
        self.fresh = 0
        self.nameless = 0
        self._rules = rules
        self._bound: dict[str, str] = {}

    def by_lane(self, word: object, lane: str) -> str:
        """Return whose turn an event takes that came by *lane*; *word* is the value of its tenant header."""
        tenant = scheduling_tenant(self._rules, word)
        if is_absent(word):
            self.nameless += 1
        if tenant:
            if len(self.lanes) >= MOST_LANES_KNOWN:
                self.lanes.clear()
            self.lanes[tenant] = lane
        return tenant

    def by_binding(self, word: object, queue: str) -> str:
        """Return whose turn an event takes that a binding led into *queue*."""
        tenant = scheduling_tenant(self._rules, word)
        if tenant:
            self._bound[tenant] = queue
        return tenant

    def otherwise(self, word: object) -> str:
        """Return whose turn a message takes whose tenant stands elsewhere, where its header says nothing."""
        return "" if is_absent(word) else scheduling_tenant(self._rules, word)

    def lane_of(self, tenant: str) -> str:
        """Return the lane by which a tenant came last; an empty text for none."""
        return self.lanes.get(tenant, "")

    def came_bound(self) -> dict[str, str]:
        """Return the tenants of which an event came by a binding since the last call, with its queue."""
        came, self._bound = self._bound, {}
        return came
