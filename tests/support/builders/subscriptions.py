"""Entries of subscriptions files and kept sets of them, as hypothesis draws them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies as st

from consumer.core.changes.file import parse_subscriptions
from consumer.core.changes.merge import StoredEntry, merge
from consumer.core.retry.policy import POLICIES
from consumer.core.subscription.entry import SubscriptionEntry
from consumer.core.subscription.rules import SubscriptionRules
from consumer.core.webhook.signing import format_secret
from tests.support.servers.certificates import Authority

RULES = SubscriptionRules()

with TemporaryDirectory() as _folder:
    AUTHORITY = Authority(Path(_folder))
PAIR = AUTHORITY.pair("leveret")
AUTH: Mapping[str, Mapping[str, object]] = {
    "basic": {"basic": {"username": "zoë", "password": "hush-sesame p:w"}},
    "bearer": {"bearer": "hush-sesame.DEF=="},
    "oauth2": {
        "oauth2": {
            "token_url": "https://id.example/t?k=hush",
            "client_id": "app",
            "client_secret": "hush-sesame x",
            "client_auth": "post",
            "scope": "a b",
        }
    },
}
"""An ``auth`` table of each kind; each secret, and no other value, contains ``sesame``."""
TLS: Mapping[str, Mapping[str, object]] = {
    "ca": {"ca": AUTHORITY.pem},
    "pair": {"certificate": PAIR.certificate, "key": PAIR.key},
    "both": {"ca": AUTHORITY.pem, "certificate": PAIR.certificate, "key": PAIR.key},
}
"""A ``tls`` table of each kind."""


def secret_of(text: str) -> str:
    """Return a secret that is made from *text*."""
    return format_secret(hashlib.sha256(text.encode()).digest())


def counting() -> Callable[[], str]:
    """Return a maker of secrets that are all different."""
    numbers = count(1)
    return lambda: secret_of(f"counted {next(numbers)}")


def parsed(*entries: Mapping[str, object]) -> Sequence[SubscriptionEntry]:
    """Return *entries* as read from a file."""
    return parse_subscriptions(
        json.dumps({"subscriptions": list(entries)}, ensure_ascii=False), "f", RULES
    ).entries


def kept(*entries: Mapping[str, object]) -> Sequence[StoredEntry]:
    """Return *entries* as a store keeps them."""
    return merge((), parsed(*entries), counting()).entries


def entry(name: str = "shop", tenant: str = "acme", **fields: object) -> dict[str, object]:
    """Return one entry of a file."""
    return {
        "tenant": tenant,
        "name": name,
        "url": f"https://{hashlib.sha256(name.encode()).hexdigest()[:12]}.example/?k=hush",
        "events": ["#"],
        **fields,
    }


_WORDS = st.text(st.characters(categories=("L", "N", "P", "S"), codec="utf-8"), max_size=12)
_BASIC = st.builds(
    lambda name, word: {"basic": {"username": "u" + name.replace(":", ""), "password": "hush-sesame" + word}},
    _WORDS,
    _WORDS,
)
_BEARER = st.from_regex(r"hush-sesame[A-Za-z0-9._~+/-]{0,9}={0,2}", fullmatch=True).map(
    lambda token: {"bearer": token}
)
NAMES = st.text(st.characters(categories=("L", "N", "P", "S"), codec="utf-8"), min_size=1, max_size=12)
TENANTS = st.sampled_from(["acme", "globex", "t.1:a@b"])
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "events": st.lists(
            st.sampled_from(["#", "order.*", "a.b", "on", "null", "1.2"]), min_size=1, max_size=3
        ),
        "retry": st.sampled_from(
            [{"policy": name} for name in POLICIES] + [{"schedule_s": [1, 2.5]}, {"base_s": 2}]
        ),
        "on_status": st.dictionaries(
            st.sampled_from(["404", "5xx", "410"]), st.sampled_from(["park", "drop", "retry"])
        ),
        "breaker": st.sampled_from([{"failures": 0}, {"cooldown_s": 0.5}, {}]),
        "concurrency": st.integers(1, 100),
        "timeout_s": st.floats(1, 30),
        "headers": st.dictionaries(
            st.sampled_from(["x-a", "x-b"]), st.sampled_from(["1", "yes", "Bearer: hush", "# no"])
        ),
        "rate_per_s": st.floats(0.01, 100_000),
        "burst": st.integers(1, 100),
        "send_trace": st.booleans(),
        "auth": st.sampled_from(list(AUTH.values())) | _BASIC | _BEARER,
        "tls": st.sampled_from(list(TLS.values())),
        "enabled": st.booleans(),
    },
)


@st.composite
def kept_sets(draw: st.DrawFn, *, least: int = 0) -> Sequence[StoredEntry]:
    """Draw the content of a store: each name and URL of a tenant once, some disabled by the daemon."""
    identities = draw(st.lists(st.tuples(TENANTS, NAMES), unique=True, min_size=least, max_size=5))
    rows = [entry(name, tenant, **draw(FIELDS)) for tenant, name in identities]
    notes = {"enabled": False, "disabled_reason": "HTTP 410", "disabled_at": "2026-01-01T00:00:00Z"}
    return [one.model_copy(update=notes) if draw(st.booleans()) else one for one in kept(*rows)]
