"""A dry run does everything but send."""

from __future__ import annotations

from pathlib import Path

from tests.support.servers.receiver import Receiver
from tests.support.system.daemon import running
from tests.support.system.endpoints import requests_of, secret, to
from tests.support.system.publisher import EventPublisher
from tests.support.system.waiting import until


async def test_dry_signs_and_logs_and_sends_nothing(tmp_path: Path, vhost: str, receiver: Receiver) -> None:
    """Match, transform, sign, log; the event is settled, and no request is made."""
    target = "/ok/dry"
    async with (
        running(tmp_path, vhost, {"LEVERET_SENDING__MODE": "dry"}) as daemon,
        EventPublisher(vhost) as publisher,
    ):
        await daemon.apply(to(receiver, target, "dry"))

        event_id = await publisher.publish("dry", body=b'{"n":1}')

        line = await daemon.logged("webhook.dry", event_id=event_id)
        await daemon.logged("delivery.attempted", event_id=event_id, verdict="delivered")
        await until(lambda: daemon.metric("leveret_window_messages") == 0, "settled")
        assert requests_of(receiver, target) == []
        assert "dry: nothing is sent" in daemon.health()
        assert str(line["signature"]).startswith("v1,")
        assert secret("dry", target) not in daemon.log.read_text()
        assert line["size_bytes"] > len(b'{"n":1}')
