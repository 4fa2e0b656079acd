"""The subscriptions of an API.

Data flow: name -> ``/v1/subscriptions/find`` -> path of the subscription -> request -> values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from consumer.cli.remote.client import PAGE, Client, ServerProblem, segment
from consumer.cli.values.subscriptions import Exported, Files, How, Identity, Rotated, Rotation, Tried
from consumer.core.changes.diff import FieldChange
from consumer.core.changes.report import ChangeRow, Report
from consumer.core.changes.steps import Address
from consumer.core.errors import ConfigError
from consumer.core.message.records import short

IDENTITY: Final = ("id", "endpoint", "tenant", "name", "url")
_TRIAL: Final = ("ok", "kind", "status", "duration_s", "detail", "event_id", "timestamp", "signature", "body")


class RemoteSubscriptions:
    """The subscriptions that the token may see."""

    def __init__(self, client: Client) -> None:
        """Bind to an API."""
        self._client = client

    def listed(self, tenant: str | None) -> Sequence[Mapping[str, object]]:
        """Return a row for each subscription, by tenant and name; None: of every tenant."""
        return list(self._client.items("/v1/subscriptions", {"tenant": tenant, "limit": PAGE}))

    def details(self, wanted: Address) -> Mapping[str, object]:
        """Return every effective setting of one subscription."""
        found: Mapping[str, object] = self._found(wanted)[0]
        return found

    def exported(self, tenant: str | None, *, secrets: bool) -> Exported:
        """Return a subscriptions file.

        Raises:
            ConfigError: *secrets* are wanted, which the API never returns.
        """
        if secrets:
            raise ConfigError("--show-secrets: the API never returns a secret; export without --server")
        return Exported(document=self._client.get("/v1/subscriptions/export", {"tenant": tenant}).body)

    def add(self, values: Mapping[str, object]) -> Report:
        """Add one subscription, with the fields of a subscriptions file."""
        tenant = segment(str(values["tenant"]))
        added = self._client.post(f"/v1/tenants/{tenant}/subscriptions", values)
        return Report(
            changes=[ChangeRow(change="added", identity=identity_of(added), secret=added["secret"])]
        )

    def remove(self, wanted: Sequence[Address], how: How) -> Report:
        """Remove subscriptions, all or nothing, or plan it."""
        names = [name_of(address) for address in wanted]
        return self._changes("/v1/subscriptions/remove", {"subscriptions": names}, how)

    def apply(self, files: Files, how: How) -> Report:
        """Bring files into the store, all or nothing, or plan it."""
        body = {
            "files": [{"name": name, "text": text} for name, text in files.files],
            "prune": files.prune,
            "enable": files.enable,
        }
        return self._changes("/v1/subscriptions/apply", body, how)

    def enable(self, wanted: Address) -> Report:
        """Send again to a subscription."""
        return self._steered(wanted, "enable", None)

    def disable(self, wanted: Address, reason: str) -> Report:
        """Send nothing to a subscription until it is enabled again."""
        return self._steered(wanted, "disable", {"reason": short(reason)})

    def rotate(self, wanted: Address, rotation: Rotation) -> Rotated:
        """Change the signing secrets of a subscription."""
        body = {
            "secret": rotation.secret,
            "expire_in": rotation.overlap,
            "drop_old": rotation.drop_old,
            "lost_key": rotation.lost_key,
        }
        before, _ = self._found(wanted)
        try:
            done = self._client.post(f"{path_of(before)}/rotate", body)
        except ServerProblem as problem:
            name = f"{before['tenant']}/{before['name']}"
            if problem.status != 409 or name in str(problem):
                raise
            raise ConfigError(f"{name}: {problem}") from None  # the path named it, so the answer does not
        return Rotated(
            identity=identity_of(done),
            secrets=done["secrets"],
            ends_at=done["ends_at"],
            secret=done["secret"],
            public_key=done["public_key"],
        )

    def test(self, wanted: Address) -> Tried:
        """Send one test event, from the machine of the API."""
        found, _ = self._found(wanted)
        done = self._client.post(f"{path_of(found)}/test")
        return Tried(
            identity=identity_of(found),
            enabled=found["enabled"],
            paused=found["paused"],
            result={name: done[name] for name in _TRIAL} | {"response": done["answer"]},
            advice=done["advice"],
        )

    def _found(self, wanted: Address) -> tuple[dict[str, Any], str | None]:
        """Return the subscription that *wanted* names, and its entity tag."""
        return found(self._client, name_of(wanted))

    def _steered(self, wanted: Address, step: str, body: Mapping[str, object] | None) -> Report:
        """Change a subscription; if its entity tag stays, it already was as wanted."""
        before, tag = self._found(wanted)
        after = self._client.send("POST", f"{path_of(before)}/{step}", body=body)
        word = "unchanged" if after.etag == tag else "changed"
        return Report(changes=[ChangeRow(change=word, identity=identity_of(after.body))])

    def _changes(self, path: str, body: Mapping[str, object], how: How) -> Report:
        chosen = {"dry_run": how.dry_run, "may_remove": sorted(how.may_remove)}
        done = self._client.post(path, {**body, **chosen})
        return Report(
            changes=[_row(change) for change in done["changes"]],
            warnings=done["warnings"],
            losses=done["losses"],
            lost=done["lost"],
            named=done["named"],
        )


def found(client: Client, name: str) -> tuple[dict[str, Any], str | None]:
    """Return the subscription of this name, and its entity tag.

    Raises:
        ServerProblem: none or several have it; the text suggests similar names.
    """
    answer = client.get("/v1/subscriptions/find", {"name": name})
    return answer.body, answer.etag


def name_of(address: Address) -> str:
    """Return an address as one text, as the API takes it."""
    if address.text is not None:
        return address.text
    return address.name or "" if address.tenant is None else f"{address.tenant}/{address.name}"


def path_of(subscription: Mapping[str, Any]) -> str:
    """Return the path of a subscription."""
    return f"/v1/tenants/{segment(subscription['tenant'])}/subscriptions/{segment(subscription['id'])}"


def identity_of(subscription: Mapping[str, Any]) -> Identity:
    """Return the fields that identify a subscription."""
    return {name: subscription[name] for name in IDENTITY}


def _row(change: Mapping[str, Any]) -> ChangeRow:
    is_counted = change["waiting"] is not None
    return ChangeRow(
        change=change["change"],
        identity=identity_of(change),
        fields=[FieldChange(**field) for field in change["fields"]],
        secret=change["secret"],
        owed={"waiting": change["waiting"], "parked": change["parked"]} if is_counted else None,
    )
