"""Remember the lane by which the events of each tenant came, or the binding that sent them to a spill queue.

Data flow: Intake.offer -> the tenant by which a producer's message is scheduled; Reroute asks for lanes and
bindings, and Sharing for the number of events without a tenant.
"""

from __future__ import annotations

from consumer.core.event.amqp_values import is_absent
from consumer.core.event.decode import DecodeRules, scheduling_tenant

MOST_LANES_KNOWN = 20_000  #: tenants whose lane is remembered


class LanesSeen:
    """The lanes and bindings by which one worker received events.

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
        """Return the scheduling tenant of an event that came by *lane*; *word* is its tenant header."""
        tenant = scheduling_tenant(self._rules, word)
        if is_absent(word):
            self.nameless += 1
        if tenant:
            if len(self.lanes) >= MOST_LANES_KNOWN:
                self.lanes.clear()
            self.lanes[tenant] = lane
        return tenant

    def by_binding(self, word: object, queue: str) -> str:
        """Return the scheduling tenant of an event that a binding sent to *queue*."""
        tenant = scheduling_tenant(self._rules, word)
        if tenant:
            self._bound[tenant] = queue
        return tenant

    def otherwise(self, word: object) -> str:
        """Return the scheduling tenant of any other message; empty where its header names no tenant."""
        return "" if is_absent(word) else scheduling_tenant(self._rules, word)

    def lane_of(self, tenant: str) -> str:
        """Return the lane by which a tenant came last; an empty text where none is known."""
        return self.lanes.get(tenant, "")

    def came_bound(self) -> dict[str, str]:
        """Return the tenants whose events came by a binding since the last call, each with its queue."""
        came, self._bound = self._bound, {}
        return came
