"""Entries of subscriptions files and kept sets of them, as hypothesis draws them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import count

from hypothesis import strategies as st

from consumer.core.retry import POLICIES
from consumer.core.signing import format_secret
from consumer.core.subscription_file import parse_subscriptions
from consumer.core.subscription_model import SubscriptionEntry, SubscriptionRules
from consumer.core.subscription_set import StoredEntry, merge

RULES = SubscriptionRules()


def secret_of(text: str) -> str:
    """Return a secret that is made from *text*."""
    return format_secret(hashlib.sha256(text.encode()).digest())


def counting() -> Callable[[], str]:
    """Return a maker of secrets that are all different."""
    numbers = count(1)
    return lambda: secret_of(f"counted {next(numbers)}")


def parsed(*entries: Mapping[str, object]) -> Sequence[SubscriptionEntry]:
    """Return *entries* as a file would give them."""
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
        "enabled": st.booleans(),
    },
)


@st.composite
def kept_sets(draw: st.DrawFn, *, least: int = 0) -> Sequence[StoredEntry]:
    """Draw what a store may hold: each name and URL of a tenant once, some disabled by the daemon."""
    identities = draw(st.lists(st.tuples(TENANTS, NAMES), unique=True, min_size=least, max_size=5))
    rows = [entry(name, tenant, **draw(FIELDS)) for tenant, name in identities]
    notes = {"enabled": False, "disabled_reason": "HTTP 410", "disabled_at": "2026-01-01T00:00:00Z"}
    return [one.model_copy(update=notes) if draw(st.booleans()) else one for one in kept(*rows)]
