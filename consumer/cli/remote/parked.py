"""Parked entries of an API: its index, single entries with payload, purge, and replay as a job.

Data flow: Filter -> requests -> rows of the index as a local command reads them.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import typer

from consumer.cli.remote.client import PAGE, Client, ServerProblem, segment
from consumer.cli.remote.subscriptions import found
from consumer.cli.shared.output import warn
from consumer.cli.shared.resolve import is_id, near
from consumer.cli.shared.resolve import tenant as demand_tenant
from consumer.cli.values.parked import Listing, Purged, Replayed, Shown
from consumer.core.errors import ConfigError
from consumer.core.message.parked_filter import Filter, filter_as_dict, fits
from consumer.core.message.records import ParkedRow, row_as_dict, row_from_dict
from consumer.core.text.printable import printable

LOOK_S: Final = 0.5  #: pause between two looks at a job
SETTLED_S: Final = 2.5  #: time within which a daemon writes a parked entry to the index
WAIT_S: Final = 1.0  #: pause between two tries while another command has the entries in hand
GROUPS: Final = 1_000  #: groups that are asked for
_T = TypeVar("_T")


class RemoteParked:
    """The parked entries that the token may see."""

    def __init__(self, client: Client) -> None:
        """Bind to an API."""
        self._client = client

    def listed(self, wanted: Filter) -> Listing:
        """Return the entries of a filter by the index, the oldest first."""
        chosen = self.resolved(wanted)
        rows = self._rows(chosen)
        if not rows and chosen.type is not None:
            self._demand_type(chosen.type)
        self._whole_stats()
        return Listing(rows=rows, chosen=chosen)

    def stats(self) -> Mapping[str, object]:
        """Return counts of all entries."""
        return self._whole_stats()

    def resolved(self, wanted: Filter) -> Filter:
        """Return *wanted* with the id of its subscription.

        Raises:
            ConfigError, ServerProblem: its tenant or its subscription is unknown.
        """
        if wanted.tenant is not None:
            known = {str(each["name"]) for each in self._client.items("/v1/tenants", {"limit": PAGE})}
            if wanted.tenant not in known:
                demand_tenant((), wanted.tenant, known | self._values("tenant"))
        if wanted.subscription is None:
            return wanted
        try:
            return replace(wanted, subscription=str(found(self._client, wanted.subscription)[0]["id"]))
        except ServerProblem:
            if is_id(wanted.subscription) and self.count(wanted):
                return wanted  # of a subscription that was removed
            raise

    def count(self, chosen: Filter, *, wait: bool = False) -> int:
        """Return the number of entries by the index, for which nothing waits."""
        del wait
        return int(self._client.get("/v1/parked", {**_params(chosen), "limit": 1}).body["total"])

    def show(self, entry_id: str, *, wait: bool) -> Shown:
        """Return one entry with its exact payload.

        Raises:
            ConfigError: it is not parked.
        """
        try:
            path = f"/v1/parked/{segment(entry_id)}"
            shown = self._in_turn(lambda: self._client.get(path).body, wait=wait)
        except ServerProblem as problem:
            if problem.status != 404:
                raise
            ids = [row.id for row in self._rows(Filter())]
            hint = f"; {near(entry_id, ids)}" if ids else ""
            raise ConfigError(f"{entry_id} is not parked; see leveret parked list{hint}") from None
        data, coded = shown.pop("data"), shown.pop("data_base64")
        del shown["headers"]
        return Shown(fields=shown, body=base64.b64decode(coded) if data is None else data.encode())

    def purge(self, chosen: Filter, *, wait: bool) -> Purged:
        """Archive entries on the machine of the API, and take them out of the queue."""
        body = {**filter_as_dict(chosen), "confirm": True, "show": True}
        done = self._in_turn(lambda: self._client.post("/v1/parked/purge", body), wait=wait)
        return Purged(rows=done["items"], archive=done["archive"] or "the archive of the server")

    def reindex(self, *, wait: bool) -> Mapping[str, object]:
        """Make the index anew from the queue."""
        done: Mapping[str, object] = self._in_turn(lambda: self._client.post("/v1/parked/reindex"), wait=wait)
        return done

    def make_job(self, chosen: Filter, rate_per_s: float | None, to: str | None) -> Mapping[str, object]:
        """Make a replay job."""
        given = {"rate_per_s": rate_per_s, "to": to}
        try:
            job: Mapping[str, object] = self._client.post(
                "/v1/parked/replay", {**filter_as_dict(chosen), **given}
            )
        except ServerProblem as problem:
            if not str(problem).startswith("to: "):
                raise
            raise ConfigError(f"--{problem}") from None
        return job

    def job(self, job: str) -> Mapping[str, object]:
        """Return a job with its progress."""
        found_job: Mapping[str, object] = self._client.get(f"/v1/jobs/{segment(job)}").body
        return found_job

    def replay(self, chosen: Filter, *, wait: bool) -> Replayed:
        """Send entries again by a job, and wait for its end; a worker does it, in its turn."""
        del wait
        before = self._rows(chosen)
        missing = sorted((chosen.ids or frozenset()) - {row.id for row in before})
        if not before:
            return Replayed(rows=(), missing=missing)
        job = self.make_job(chosen, None, None)
        try:
            job = self._ended(str(job["id"]))
        except KeyboardInterrupt:
            left = f"interrupted; {job['id']} goes on, see `leveret jobs show {job['id']}`"
            return Replayed(rows=self._gone(chosen, before, 0), missing=missing, interrupted=left)
        gone = self._gone(chosen, before, int(str(job["replayed"])))
        stays = {row.id for row in before} - {str(row["id"]) for row in gone}
        is_done = job["state"] == "done"
        why = str(job["detail"] or "see `leveret jobs list`")
        return Replayed(
            rows=gone,
            stays=dict.fromkeys(sorted(stays), why) if is_done else {},
            missing=missing,
            broken=None if is_done else f"{job['id']} is {job['state']}; see `leveret jobs resume`",
        )

    def _ended(self, job: str) -> Mapping[str, object]:
        """Return a job once it no longer runs; a line on stderr names it if that takes a while."""
        tells_at = time.monotonic() + SETTLED_S
        while (now := self.job(job))["state"] == "running":
            if time.monotonic() > tells_at:
                typer.echo(f"leveret: a worker sends them as {job}; Ctrl-C ends only this wait", err=True)
                tells_at = float("inf")
            time.sleep(LOOK_S)
        return now

    def _gone(self, chosen: Filter, before: Sequence[ParkedRow], count: int) -> list[Mapping[str, object]]:
        """Return those of *before* that are no longer parked, once the index knows of *count* of them."""
        deadline = time.monotonic() + SETTLED_S
        while True:
            still = {row.id for row in self._rows(chosen)}
            gone = [row_as_dict(row) for row in before if row.id not in still]
            if len(gone) >= min(count, len(before)) or time.monotonic() > deadline:
                return [*gone]
            time.sleep(LOOK_S)

    def _rows(self, chosen: Filter) -> Sequence[ParkedRow]:
        """Return the rows of the index, the oldest first."""
        items = self._client.items("/v1/parked", {**_params(chosen), "limit": PAGE})
        return [row_from_dict(item) for item in items][::-1]

    def _values(self, by: str) -> set[str]:
        """Return the values that a field has in the index."""
        groups = self._client.get("/v1/parked/groups", {"by": by, "limit": GROUPS}).body["items"]
        return {str(group["values"][by]) for group in groups if group["values"][by] is not None}

    def _demand_type(self, pattern: str) -> None:
        types = self._values("type")
        if types and not any(fits(pattern, kind) for kind in types):
            raise ConfigError(f"no entry of a type {pattern!r} is parked; {near(pattern, types)}")

    def _whole_stats(self) -> Mapping[str, object]:
        """Return counts of all entries, and warn if the index lacks some.

        Raises:
            ConfigError: the index is empty, and the queue is not.
        """
        deadline = time.monotonic() + SETTLED_S
        while (stats := self._stats())[1] and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        counts, gap = stats
        if gap:
            queued = int(str(counts["in_queue"]))
            problem = (
                f"the index has {queued - gap} parked messages, the queue has {queued}; "
                "run `leveret parked reindex`"
            )
            if not counts["entries"]:
                raise ConfigError(problem)
            warn(problem)
        return counts

    def _stats(self) -> tuple[dict[str, Any], int]:
        counts: dict[str, Any] = self._client.get("/v1/parked/stats").body
        return counts, counts.pop("gap") or 0

    def _in_turn(self, ask: Callable[[], _T], *, wait: bool) -> _T:
        """Return the answer; with *wait* a command that has the entries in hand is waited for."""
        is_told = False
        while True:
            try:
                return ask()
            except ServerProblem as problem:
                if not wait or problem.status != 409 or problem.retry_after is None:
                    raise
                if not is_told:
                    holder = str(problem).partition("; ")[0].rpartition("is in use by ")[2]
                    typer.echo(f"leveret: waiting for {printable(holder)}", err=True)
                is_told = True
                time.sleep(WAIT_S)


def _params(chosen: Filter) -> dict[str, Any]:
    """Return a filter as the parameters of a list."""
    shown = filter_as_dict(chosen)
    ids = shown.pop("ids", None)
    return shown if ids is None else {**shown, "id": ids}
