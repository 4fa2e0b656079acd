"""Sealed values without their key: no command loses one or mixes it with another."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.core.changes.export import export_document
from consumer.core.changes.merge import Merge, StoredEntry, merge
from consumer.core.changes.steps import Note, disable, drop_old, enable, remove, rotate
from consumer.core.errors import ConfigError
from consumer.core.store.sealing import KeyRing, Sealed, parse_keys
from consumer.edges.store import Step
from consumer.edges.store.rows.entries import SubscriptionRow, to_entry, to_row
from tests.support.builders.subscriptions import AUTH, PAIR, TLS, counting, secret_of
from tests.support.stores import SHOP, Place, apply, shop, wanted

FIRST, SECOND = (base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))
OWN, OTHER, BOTH = (KeyRing(parse_keys(text)) for text in (FIRST, SECOND, f"{FIRST} {SECOND}"))
NEW_AUTH = {"bearer": "new-sesame"}
CASES = [
    {key: value for key, value in (("auth", auth), ("tls", tls), ("secrets", secrets)) if value is not None}
    for auth, tls, secrets in itertools.product(
        (None, *AUTH.values()), (None, *TLS.values()), (None, [secret_of("a"), secret_of("b")])
    )
]


@dataclass(slots=True)
class Rows:
    """The rows of a store, changed as the store changes them."""

    rows: dict[str, SubscriptionRow] = field(default_factory=dict)

    def entries(self, ring: KeyRing) -> Sequence[StoredEntry]:
        """Return the stored secrets that *ring* opens."""
        return [to_entry(row, ring, "store") for row in self.rows.values()]

    def change(self, step: Step, ring: KeyRing) -> Merge:
        """Take *step*, and keep its result."""
        merged = step(self.entries(ring))
        fresh = [to_row(e, self.rows.get(e.id), ring) for e in (*merged.added, *merged.changed)]
        for entry in merged.removed:
            del self.rows[entry.id]
        for values in fresh:
            columns: dict[str, Any] = dict(values)
            columns["sealed"] = Sealed(columns.pop("key_id"), columns.pop("secrets"))
            self.rows[columns["id"]] = SubscriptionRow(**columns)
        return merged

    def documents(self, ring: KeyRing) -> list[dict[str, object]]:
        """Return all that is kept, secrets included."""
        return [entry.document() for entry in self.entries(ring)]


def made(case: Mapping[str, object]) -> Rows:
    """Return rows with one subscription, sealed with the first key."""
    rows = Rows()
    rows.change(lambda kept: merge(kept, wanted(shop(**case)), counting()), OWN)
    return rows


def without_secrets(case: Mapping[str, object]) -> dict[str, object]:
    """Return a file that gives everything but the secrets that sign."""
    return shop(**{key: value for key, value in case.items() if key != "secrets"})


def files(case: Mapping[str, object], export: Mapping[str, Any], number: int) -> dict[str, dict[str, object]]:
    """Return each file that a user may apply, by its name; *export* is the file that the store wrote."""
    new = secret_of(f"file {number}")
    return {
        "export": dict(export),
        "own": without_secrets(case),
        "timeout": {**export, "timeout_s": 1 + number % 29},
        "secrets": {**export, "secrets": [new]},
        "auth": {**export, "auth": NEW_AUTH},
        "all": {**without_secrets(case), "secrets": [new], "auth": NEW_AUTH},
        "bare": shop(),
    }


def take(what: str, file: Mapping[str, object] | None, number: int) -> Step:
    """Return the step of a command by its name."""
    if file is not None:
        of_file = wanted(dict(file))
        return lambda kept: merge(kept, of_file, lambda: secret_of(f"made {number}"))
    new = secret_of(f"rotated {number}")
    return {
        "rotate": lambda kept: rotate(kept, SHOP, new),
        "drop": lambda kept: drop_old(kept, SHOP),
        "enable": lambda kept: enable(kept, SHOP),
        "disable": lambda kept: disable(kept, SHOP, Note("by hand", "2026-01-02T03:04:05Z")),
        "remove": lambda kept: remove(kept, {SHOP}),
    }[what]


STEPS = (*files({}, {}, 0), "rotate", "drop", "enable", "disable", "remove")


def export_of(rows: Rows, ring: KeyRing) -> Any:
    """Return the entries that `export` writes without secrets."""
    return export_document(rows.entries(ring), secrets=False)["subscriptions"]


def step_of(what: str, case: Mapping[str, object], truth: Rows, number: int) -> Step:
    """Return the step *what*, with the file of *truth*: its export while everything was open."""
    export = export_of(truth, BOTH)
    return take(what, files(case, export[0] if export else shop(), number).get(what), number)


@pytest.mark.parametrize("what", STEPS)
def test_a_step_on_a_locked_subscription_is_whole_or_refused(what: str) -> None:
    """Fault 69: with every auth, tls and secrets: once the key is back it is as if it had never been away.

    A step that would lose or mix something is an error that names the remedy; the others are done.
    """
    for case in CASES:
        open_, locked = made(case), made(case)
        had = dict(locked.rows)
        sealed = bool(made(case).entries(OWN)[0].credentials())
        refused = what in ("rotate", "drop", "auth") or (sealed and what in ("secrets", "own", "bare"))
        step = step_of(what, case, open_, 1)
        open_.change(step, OWN)

        if refused:
            with pytest.raises(ConfigError, match=r"^acme/shop: .*bring the key back") as told:
                locked.change(step, OTHER)
            assert locked.rows == had, case
            assert "sesame" not in str(told.value)
            assert "PRIVATE KEY" not in str(told.value)
        else:
            locked.change(step, OTHER)
        assert locked.documents(BOTH) == (made(case) if refused else open_).documents(BOTH), (what, case)


HISTORIES = st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from([OWN, OTHER, BOTH])), max_size=8)


@settings(max_examples=60)
@given(st.sampled_from(CASES), HISTORIES)
def test_no_history_of_keys_and_steps_loses_or_mixes_a_secret(
    case: Mapping[str, object], history: list[tuple[str, KeyRing]]
) -> None:
    """Fault 69: keys come and go between the steps; the content is the result of the successful steps."""
    truth, rows = made(case), made(case)
    for number, (what, ring) in enumerate(history):
        step = step_of(what, case, truth, number)
        try:
            rows.change(step, ring)
        except ConfigError:
            continue
        truth.change(step, BOTH)
        assert rows.documents(BOTH) == truth.documents(BOTH)


def test_an_export_of_locked_subscriptions_is_the_same_file() -> None:
    """Without secrets it does not matter whether they can be opened; applied: no change."""
    for case in CASES:
        rows = made(case)
        had = dict(rows.rows)
        open_, locked = export_of(rows, OWN), export_of(rows, OTHER)

        again = rows.change(take("export", locked[0], 0), OTHER)

        assert open_ == locked
        assert "sesame" not in json.dumps(locked) + repr(rows.entries(OTHER))
        assert (len(again.unchanged), len(again.changed), len(again.generated)) == (1, 0, 0)
        assert rows.rows == had


def test_a_lost_key_is_given_up_aloud_and_never_with_a_credential() -> None:
    """Fault 69: rotate-secret --lost-key replaces secrets that sign, never one that it cannot give back."""
    new = secret_of("new")
    for case in CASES:
        rows = made(case)
        beside = list(rows.entries(OWN)[0].credentials())
        if beside:
            with pytest.raises(ConfigError, match=f"apply it with new secrets, {', '.join(beside)}"):
                rows.change(lambda kept: rotate(kept, SHOP, new, lost_key=True), OTHER)
            continue
        rows.change(lambda kept: rotate(kept, SHOP, new, lost_key=True), OTHER)
        [now] = rows.documents(OTHER)
        assert now == made(case).documents(OWN)[0] | {"secrets": [new]}
    with pytest.raises(ConfigError, match="can be decrypted; leave --lost-key out"):
        made({}).change(lambda kept: rotate(kept, SHOP, new, lost_key=True), OWN)


async def test_a_locked_store_keeps_credentials_through_commands(place: Place) -> None:
    """Fault 69: in a real database, too; a locked one sends nothing, and shows everything."""
    case = {"auth": AUTH["basic"], "tls": TLS["pair"]}
    await apply(place.open(STORE__KEY=FIRST), shop(**case))
    [before] = await place.open().entries()

    locked = place.open(STORE__KEY=SECOND)
    [seen] = await locked.entries()
    [built] = await locked.load()
    assert (seen.locked is not None, seen.secrets) == (True, ())
    assert seen.masked() == before.masked()
    assert (built.access, built.headers, built.keys) == (None, (), ())
    await locked.change(lambda kept: disable(kept, SHOP, Note("by hand", "2026-01-02T03:04:05Z")))
    await locked.change(lambda kept: enable(kept, SHOP))
    with pytest.raises(ConfigError, match=r"acme/shop: .*bring the key back"):
        await locked.change(lambda kept: rotate(kept, SHOP, secret_of("new")))
    file: Any = export_document(await locked.entries(), secrets=False)["subscriptions"]
    await apply(locked, {**file[0], "timeout_s": 3})

    [after] = await place.open(STORE__KEY=FIRST).entries()
    assert after.document() == before.document() | {"timeout_s": 3.0}
    assert after.credentials()["tls.key"] == PAIR.key
