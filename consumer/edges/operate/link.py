"""Find the broker that a command connects to."""

from __future__ import annotations

from dataclasses import dataclass

from consumer.core.errors import ConfigError
from consumer.edges.broker.connection.connect import AmqpOptions, amqp_options
from consumer.edges.management.reach import ManagementLogin, diagnosis, management_login
from consumer.edges.private_broker import PrivateBroker, find_server
from consumer.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Options for a connection to the broker, and the login of its management API if that is known."""

    options: AmqpOptions
    management: ManagementLogin | None


def find_broker(settings: Settings) -> Link:
    """Return the broker of the settings, or else the private one.

    Raises:
        ConfigError: no AMQP URL is set and the private broker is not running, or a certificate is unusable.
    """
    urls, management_url = settings.amqp_urls(), settings.amqp.management_url
    if not urls:
        server = find_server(settings.rabbitmq_home, settings.rabbitmq_chroot)
        status = PrivateBroker(settings.home, server=server).status()
        if status.state != "running" or status.amqp_url is None:
            raise ConfigError("no broker: run `leveret broker start`, or set LEVERET_AMQP_URL")
        urls, management_url = (status.amqp_url,), management_url or status.management_url
    management = management_login(urls[0], management_url)
    options = amqp_options(settings.amqp, urls, diagnose=diagnosis(management))
    return Link(options=options, management=management)
