"""Keep a subscription in the store for as long as the process that made it runs.

Data flow: URL, tenant, event types -> the checks of a subscriptions file -> store; removed at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from consumer.core.changes.file import parse_subscriptions
from consumer.core.changes.merge import Merge, StoredEntry, merge
from consumer.core.changes.steps import remove
from consumer.core.errors import ConfigError
from consumer.core.subscription.entry import refuse_endpoint
from consumer.core.subscription.subscription import subscription_id
from consumer.core.text.urls import parse_url
from consumer.core.webhook.signing import SigningKey, parse_secret
from consumer.edges.process.fresh_secrets import fresh_secret
from consumer.edges.store import Step, opened_store
from consumer.settings import Settings

ALLOW = """set LEVERET_EGRESS__ALLOW='["127.0.0.0/8"]', for the daemon and for this command"""


class TemporarySubscription:
    """One subscription to our own endpoint, with a secret that only this process knows."""

    def __init__(self, settings: Settings, url: str, tenant: str | None, events: Sequence[str]) -> None:
        """Choose its name; nothing is stored yet. *tenant* None is the default tenant."""
        self._settings = settings
        self._url = url
        self._events = list(events)
        self.tenant = settings.events.default_tenant if tenant is None else tenant
        self.label = f"listen-{url.rstrip('/').rpartition(':')[2]}"

    @property
    def name(self) -> str:
        """``tenant/name``, as commands show it."""
        return f"{self.tenant}/{self.label}"

    async def register(self) -> SigningKey:
        """Store it and return its signing key. It replaces one that a killed process left behind.

        Raises:
            ConfigError: webhooks may not go to this machine, a pattern is invalid, or the store is damaged.
        """
        rules = self._settings.subscription_rules()
        if refuse_endpoint(parse_url(self._url), rules.egress) is not None:
            raise ConfigError(f"--subscribe: webhooks may not go to this machine; {ALLOW}")
        secret = fresh_secret()
        entry = {"tenant": self.tenant, "name": self.label, "url": self._url, "events": self._events}
        text = orjson.dumps({"subscriptions": [entry | {"secrets": [secret]}]}).decode()
        parsed = parse_subscriptions(text, "--subscribe", rules)

        def step(kept: Sequence[StoredEntry]) -> Merge:
            return merge(kept, parsed.entries, lambda: secret, enable=True)

        await self._change(step)
        return parse_secret(secret)

    async def remove(self) -> None:
        """Remove it from the store; deliveries that wait for it are cancelled."""
        own = subscription_id(self.tenant, self.label)
        await self._change(lambda kept: remove(kept, {own}))

    async def _change(self, step: Step) -> None:
        async with opened_store(self._settings) as store:
            await store.change(step)
