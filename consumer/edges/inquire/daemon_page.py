"""Read the metrics and the readiness of a daemon from its listen address.

Data flow: settings -> address; text of /metrics -> MetricsPage; answer of /readyz -> :class:`Readiness`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from consumer.core.errors import ConfigError
from consumer.core.tools.daemon_status import MetricsPage, Sample
from consumer.settings import Settings


class Readiness(NamedTuple):
    """The answer of /readyz."""

    ready: bool
    reasons: tuple[str, ...]  #: why the daemon is not ready; otherwise its notes


def daemon_address(settings: Settings) -> str:
    """Return the address at which this machine reaches a daemon with these settings.

    Raises:
        ConfigError: the system chose its port, which only the daemon's log contains.
    """
    if settings.listen_port == 0:
        raise ConfigError(
            "listen: port 0 is chosen anew at each start; find it in the daemon's log and give --at HOST:PORT"
        )
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.listen_host, settings.listen_host)  # noqa: S104 - looked up, not bound
    return f"[{host}]:{settings.listen_port}" if ":" in host else f"{host}:{settings.listen_port}"


def read_page(text: str, at_s: float) -> MetricsPage | None:
    """Return the samples of a page; None if it is not that of a daemon.

    Args:
        text: The page.
        at_s: Monotonic seconds when it was read.
    """
    try:
        samples = tuple(
            Sample(sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if math.isfinite(sample.value)
        )
    except ValueError:
        return None
    is_ours = any(sample.name.startswith("leveret_") for sample in samples)
    return MetricsPage(at_s, samples) if is_ours else None


def read_readiness(status: int, text: str) -> Readiness:
    """Return the readiness that /readyz answered with a status and a body."""
    first, *notes = text.splitlines() or [""]
    if status == 200:
        return Readiness(True, tuple(notes))
    return Readiness(False, (first.removeprefix("not ready: "), *notes))
