"""Replay jobs of an API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from consumer.cli.remote.client import Client, ServerProblem, segment
from consumer.core.errors import ConfigError
from consumer.core.message.jobs import Steer


class RemoteJobs:
    """The jobs that the token may see."""

    def __init__(self, client: Client) -> None:
        """Bind to an API."""
        self._client = client

    def all(self, *, pending: bool) -> Sequence[Mapping[str, object]]:
        """Return the jobs, the newest first; with *pending* only those that are running or paused."""
        return list(self._client.items("/v1/jobs", {"pending": pending}))

    def one(self, job: str) -> Mapping[str, object]:
        """Return one job.

        Raises:
            ConfigError: there is no such job.
        """
        return self._of(job, "GET", "")

    def steer(self, job: str, step: Steer) -> Mapping[str, object]:
        """Pause, resume or cancel a job.

        Raises:
            ConfigError: there is no such job.
            ServerProblem: its state does not allow it.
        """
        return self._of(job, "POST", f"/{step.value}")

    def _of(self, job: str, method: str, path: str) -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = self._client.send(method, f"/v1/jobs/{segment(job)}{path}").body
        except ServerProblem as problem:
            if problem.status == 404:
                raise ConfigError(f"there is no job {job}; see leveret jobs list") from None
            raise
        return found
