"""Run a private RabbitMQ node, on loopback only: for tests, for trials, for small installations.

Data flow: server.find_server -> node.PrivateBroker.start -> BrokerEndpoint (the AMQP and management URLs).
"""

from __future__ import annotations

from consumer.edges.private_broker.files import ports_in
from consumer.edges.private_broker.node import BrokerEndpoint, BrokerStatus, PrivateBroker
from consumer.edges.private_broker.server import Server, find_server

__all__ = ["BrokerEndpoint", "BrokerStatus", "PrivateBroker", "Server", "find_server", "ports_in"]
