"""How versions of RabbitMQ differ, as far as Leveret meets it: one value per version, for the fake broker.

Each difference was read in the release notes and the documentation of RabbitMQ, not measured; docs/brokers.md
lists them. 3.10.8 and 4.0.5 are also run as real servers, by the whole suite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """One version of the broker."""

    version: str
    frame_max: int = 131_072  #: bytes that the broker proposes; 0: no limit
    least_frame_max: int = 0  #: bytes; a client that asks for less is refused
    first_frame_max: int = 4_096  #: bytes of a frame before the connection is open
    counts_nacks: bool = True  #: whether ``basic.nack`` counts towards the delivery limit
    cancels_on_timeout: bool = False  #: at a consumer time-out, instead of closing the channel
    accepts_cancel_ok: bool = False  #: whether a client may answer that
    permits_global_qos: bool = True
    permits_transient: bool = True  #: queues that are neither durable nor exclusive
    passive_needs: Literal["nothing", "any", "configure"] = "nothing"  #: right for a passive declaration
    delays_returns: bool = False  #: a policy of delayed retry applies to every queue


V4_0 = Behaviour(version="4.0.5")
V4_1 = replace(V4_0, version="4.1.0", least_frame_max=8_192, first_frame_max=8_192)
V4_2 = replace(V4_1, version="4.2.0")
V4_2_6 = replace(V4_2, version="4.2.6", passive_needs="configure")
V4_3_0 = replace(
    V4_2_6,
    version="4.3.0",
    counts_nacks=False,
    cancels_on_timeout=True,
    permits_global_qos=False,
    permits_transient=False,
)
V4_3_1 = replace(V4_3_0, version="4.3.1", passive_needs="any")
V4_3_7 = replace(V4_3_1, version="4.3.7", accepts_cancel_ok=True)
ALL = (V4_0, V4_1, V4_2, V4_2_6, V4_3_0, V4_3_1, V4_3_7)
