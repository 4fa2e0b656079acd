"""Mark some delivery messages with a check on their way to the rungs.

Data flow: Outbox -> :class:`CheckedPublisher` -> the broker's publisher. The :class:`ReturnWatch` counts
every publish to a rung, and decides about the marks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from consumer.core.returns.check_headers import CHECK, check_text
from consumer.core.returns.watch import Path, ReturnWatch
from consumer.ports import Publication, Publisher

PATHS_KEPT = 10_000  #: routing keys that are remembered as paths; with the default settings there are 148


@dataclass(slots=True)
class CheckedPublisher:
    """Counts and marks the messages for the rungs. Implements :class:`consumer.ports.Publisher`.

    Attributes:
        publisher: Publishes.
        wait: Name of the exchange in front of the rungs.
        worker: Name of this worker.
        watch: Its checks.
    """

    publisher: Publisher
    wait: str
    worker: str
    watch: ReturnWatch = field(default_factory=ReturnWatch)
    _paths: dict[str, Path] = field(default_factory=dict)

    async def publish(self, publication: Publication) -> None:
        """Publish; see the port for the errors."""
        if publication.exchange != self.wait:
            await self.publisher.publish(publication)
            return
        number = self.watch.put(self._path(publication.routing_key))
        if CHECK in publication.headers:  # of an earlier passage, on a message that goes on unread
            publication = replace(publication, headers=_unmarked(publication.headers))
        if number is None:
            await self.publisher.publish(publication)
            return
        marked = {**publication.headers, CHECK: check_text(self.worker, number)}
        await self.publish_check(replace(publication, headers=marked), number)

    async def publish_check(self, publication: Publication, number: int) -> None:
        """Publish a message that carries the check *number*, and note the confirm; see the port."""
        try:
            await self.publisher.publish(publication)
        except BaseException:
            self.watch.failed(number)
            raise
        self.watch.confirmed(number)

    def pressed(self) -> str | None:
        """Return why no new attempt should start, or None."""
        return self.publisher.pressed()

    def _path(self, routing_key: str) -> Path:
        path = self._paths.get(routing_key)
        if path is None:
            rung_ms, _, queue = routing_key.partition(".")
            path = Path(int(rung_ms) / 1000, queue)
            if len(self._paths) < PATHS_KEPT:
                self._paths[routing_key] = path
        return path


def _unmarked(headers: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in headers.items() if name != CHECK}
