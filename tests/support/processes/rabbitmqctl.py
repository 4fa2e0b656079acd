"""Run ``rabbitmqctl`` against a private broker."""

from __future__ import annotations

import subprocess

from consumer.core.errors import BrokerUnavailable
from consumer.edges.private_broker import PrivateBroker, files


def rabbitmqctl(broker: PrivateBroker, *arguments: str) -> str:
    """Run the server's own command against the node and return its output.

    Raises:
        BrokerUnavailable: the command failed; the text is its answer.
    """
    identity = files.load_identity(broker.layout)
    assert identity is not None, "the broker was never started"
    done = subprocess.run(
        broker.server.command(broker.server.scripts / "rabbitmqctl", "--quiet", *arguments),
        env=files.node_environment(broker.layout, identity, broker.server),
        cwd=broker.layout.outside,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        raise BrokerUnavailable(f"rabbitmqctl {arguments[0]}: {(done.stderr or done.stdout).strip()}")
    return done.stdout
