"""Find the broker and the login of its management API, without importing an HTTP library.

Data flow: settings, or the private node -> Reach -> the daemon's connections and checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module

from yarl import URL

from consumer.edges.broker.connection.connect import Diagnose
from consumer.edges.private_broker import PrivateBroker, find_server
from consumer.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagementLogin:
    """URL of the management API, and the user for it."""

    url: str  #: without credentials and without a slash at the end
    user: str
    password: str = field(repr=False)
    vhost: str = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The addresses of the daemon's broker."""

    urls: tuple[str, ...]  #: may contain passwords, so they are never logged
    management_url: str | None = None

    @property
    def management(self) -> ManagementLogin | None:
        """Login of the management API; None if its URL is unknown."""
        return management_login(self.urls[0], self.management_url)

    def places(self) -> Sequence[str]:
        """Return every URL that webhooks must not reach."""
        return [*self.urls, *filter(None, [self.management_url])]


def reach_broker(settings: Settings) -> Reach:
    """Return the broker of the settings; without one, start the private node unless it runs. This blocks.

    Raises:
        ConfigError, BrokerUnavailable: this machine has no RabbitMQ server, or the node does not start.
    """
    urls, management_url = settings.amqp_urls(), settings.amqp.management_url
    if urls:
        return Reach(urls=urls, management_url=management_url)
    server = find_server(settings.rabbitmq_home, settings.rabbitmq_chroot)
    node = PrivateBroker(settings.home, server=server).start()
    return Reach(urls=(node.amqp_url,), management_url=management_url or node.management_url)


def management_login(amqp_url: str, management_url: str | None) -> ManagementLogin | None:
    """Return a login as the user of the AMQP URL; None if the management URL is unknown."""
    if management_url is None:
        return None
    url = URL(amqp_url)
    return ManagementLogin(
        url=management_url,
        user=url.user or "guest",
        password=url.password or "guest",
        vhost=url.path.removeprefix("/") or "/",
    )


def diagnosis(login: ManagementLogin | None) -> Diagnose | None:
    """Return a function that explains a silent broker; None without the management API."""
    if login is None:
        return None

    async def diagnose() -> str | None:
        found: str | None = await import_module("consumer.edges.management.snapshot").file_limit(login)
        return found

    return diagnose
