"""Tell which tenants crowd others out for so long that their events should wait elsewhere.

Data flow: what each tenant holds and who waits, once in a while -> NoiseMeter -> tenants to be re-routed.

Source: Architecture, "Fairness"; FAULTS 71.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from zlib import crc32


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseRule:
    """When a tenant is noisy."""

    held: float  #: deliveries in flight over which a tenant crowds others
    after_s: float = 10.0  #: for how long it has to
    most: int = 4  #: tenants that are re-routed at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What there is to see at one moment."""

    held: Mapping[str, int]  #: deliveries in flight by tenant
    backlogged: Collection[
        str
    ] = ()  #: tenants whose lane holds more than its window: who waits there is unseen
    others_wait: bool = False  #: whether jobs of any kind wait of more than one tenant


class NoiseMeter:
    """Adds up for how long each tenant has been crowding others."""

    def __init__(self, rule: NoiseRule) -> None:
        self.rule = rule
        self._noisy_s: dict[str, float] = {}

    def look(self, seen: Look, passed_s: float, spilled: Collection[str]) -> list[str]:
        """Return the tenants that are to be re-routed now, the noisiest first.

        A tenant crowds others while it holds more than its tenth and others wait: in hand, or unseen in its
        lane behind its own backlog. A moment of quiet takes off what a moment of noise adds.

        Args:
            seen: This moment.
            passed_s: Seconds since the last look.
            spilled: Tenants that are re-routed already.
        """
        rule, noisy_s = self.rule, self._noisy_s
        crowding = {
            tenant
            for tenant, held in seen.held.items()
            if held > rule.held and (seen.others_wait or tenant in seen.backlogged) and tenant not in spilled
        }
        for tenant in crowding | noisy_s.keys():
            so_far = noisy_s.get(tenant, 0.0) + (passed_s if tenant in crowding else -passed_s)
            noisy_s[tenant] = min(so_far, rule.after_s)
        self._noisy_s = {t: s for t, s in noisy_s.items() if s > 0 and t not in spilled}
        room = max(0, rule.most - len(spilled))
        ready = [t for t in crowding if self._noisy_s.get(t, 0.0) >= rule.after_s]
        return sorted(ready, key=lambda t: (-seen.held[t], t))[:room]

    def noisy(self) -> int:
        """Return how many tenants crowd others now or did so a moment ago."""
        return len(self._noisy_s)


def spill_index(tenant: str, queues: int) -> int:
    """Return which of *queues* spill queues takes a tenant: every worker says the same.

    Two workers that bound a tenant to two queues would make two copies of each of its events.
    """
    return crc32(tenant.encode("utf-8", "surrogatepass")) % queues
