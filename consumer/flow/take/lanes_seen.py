"""Remember by which way the events of each tenant came: a lane, or a binding around the lanes.

Data flow: Intake.offer reads a producer's message -> the tenant whose turn it takes; Reroute and Sharing ask.
"""

from __future__ import annotations

from consumer.core.event.amqp_values import is_absent
from consumer.core.event.decode import DecodeRules, scheduling_tenant

MOST_LANES_KNOWN = 20_000  #: tenants whose lane is remembered


class LanesSeen:
    """The ways that one worker has seen.

    Attributes:
        lanes: The lane by which each tenant came last. Its keys are tenant ids only, no other text of a
            producer.
        nameless: Events that came by lanes and name no tenant, since the start.
    """

    def __init__(self, rules: DecodeRules) -> None:
        self.lanes: dict[str, str] = {}
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
        """Return whose turn an event takes that a binding sent to *queue*."""
        tenant = scheduling_tenant(self._rules, word)
        if tenant:
            self._bound[tenant] = queue
        return tenant

    def otherwise(self, word: object) -> str:
        """Return whose turn any other message takes; an empty text where its header names no tenant."""
        return "" if is_absent(word) else scheduling_tenant(self._rules, word)

    def lane_of(self, tenant: str) -> str:
        """Return the lane by which a tenant came last; an empty text where none is known."""
        return self.lanes.get(tenant, "")

    def came_bound(self) -> dict[str, str]:
        """Return the tenants whose events came by a binding since the last call, each with its queue."""
        came, self._bound = self._bound, {}
        return came
