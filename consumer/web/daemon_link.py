"""Watch the worker at the listen address of the settings, for all requests together.

Data flow: GET /metrics and /readyz, at most once a second -> :class:`DaemonNow`; rates cover the time since
the look before.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

import httpx2

from consumer.core.errors import ConfigError
from consumer.core.tools.daemon_status import MetricsPage, Status, status
from consumer.edges.inquire.daemon_page import Readiness, daemon_address, read_page, read_readiness
from consumer.settings import Settings

FRESH_S: Final = 1.0  #: a look is not repeated within this time
FIRST_S: Final = 0.25  #: time between the two looks of the first request
STALE_S: Final = 30.0  #: rates cover this time at most; after a longer one the look before is repeated
ANSWER_S: Final = 2.0  #: longest wait for an answer of the worker
_MOVE: Final = "start `leveret serve` with `LEVERET_LISTEN` set to the address of a worker"


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The activity of the worker is unknown."""

    why: str  #: a sentence
    remedy: str  #: a sentence

    def __str__(self) -> str:
        """Return both sentences."""
        return f"{self.why} {self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonNow:
    """The activity of the worker."""

    at: str  #: its address
    readiness: Readiness
    status: Status
    before: MetricsPage
    page: MetricsPage

    def gauge(self, name: str) -> float | None:
        """Return the sum of the samples of a series; None without one."""
        found = [sample.value for sample in self.page.samples if sample.name == name]
        return sum(found) if found else None

    def rates_by(self, name: str, label: str) -> dict[str, float]:
        """Return the growth of a counter a second, by one label; a counter that decreased counts from 0."""
        before, now = self.before.by(name, label), self.page.by(name, label)
        seconds = self.page.at_s - self.before.at_s
        grown = {key: value - before.get(key, 0.0) for key, value in now.items()}
        return {key: (now[key] if more < 0 else more) / seconds for key, more in grown.items()}


class DaemonLink:
    """Reaches the worker of the settings."""

    def __init__(self, settings: Settings) -> None:
        """Bind to the settings; nothing is connected."""
        self._settings = settings
        self._client: httpx2.AsyncClient | None = None
        self._turn = asyncio.Lock()
        self._now: DaemonNow | None = None
        self._fault = NoAnswer("No worker was asked so far.", "Try again.")
        self._looked_at = -FRESH_S

    async def now(self) -> DaemonNow | NoAnswer:
        """Return the activity of the worker, or why it is unknown."""
        async with self._turn:
            if time.monotonic() - self._looked_at >= FRESH_S:
                try:
                    self._now = await self._look()
                except (ConfigError, httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
                    self._now, self._fault = None, self._no_answer(error)
                self._looked_at = time.monotonic()
            return self._now or self._fault

    async def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            await self._client.aclose()

    def _no_answer(self, error: Exception) -> NoAnswer:
        """Put into words why the worker cannot be asked."""
        try:
            at = daemon_address(self._settings)
        except ConfigError:
            remedy = "Give `listen` a fixed port in the settings of the worker and of `leveret serve`."
            return NoAnswer("The address of the worker is unknown: `listen` has port 0.", remedy)
        match error:
            case ConfigError():
                return NoAnswer(f"Another program answers at {at}.", f"{_MOVE[0].upper()}{_MOVE[1:]}.")
            case httpx2.ConnectError():
                return NoAnswer(f"No worker answers at {at}.", f"Start one with `leveret run`, or {_MOVE}.")
            case httpx2.TimeoutException():
                remedy = "See its log and the CPU of its machine, and restart it if that stays so."
                return NoAnswer(f"The worker at {at} did not answer within {ANSWER_S:g} s.", remedy)
        why = f"The worker at {at} gave no usable answer: {str(error) or type(error).__name__}."
        return NoAnswer(why, "See its log, and that worker and `leveret serve` have the same version.")

    async def _look(self) -> DaemonNow:
        """Look once, or twice if the look before is too old.

        Raises:
            ConfigError: the port is unknown, or another program answers.
            httpx2.HTTPError: nothing answers.
        """
        at = daemon_address(self._settings)
        if self._client is None:
            self._client = httpx2.AsyncClient(base_url=f"http://{at}", timeout=ANSWER_S, trust_env=False)
        before = None if self._now is None else self._now.page
        if before is None or time.monotonic() - before.at_s > STALE_S:
            before = await _page(self._client)
            await asyncio.sleep(FIRST_S)
        page = await _page(self._client)
        answer = await self._client.get("/readyz")
        readiness = read_readiness(answer.status_code, answer.text)
        return DaemonNow(at=at, readiness=readiness, status=status(before, page), before=before, page=page)


async def _page(client: httpx2.AsyncClient) -> MetricsPage:
    """Read the metrics.

    Raises:
        ConfigError: it is not the page of a worker.
        httpx2.HTTPError: nothing answers.
    """
    answer = await client.get("/metrics")
    page = await asyncio.to_thread(read_page, answer.text, time.monotonic())
    if page is None:
        raise ConfigError("another program is at the listen address")
    return page
