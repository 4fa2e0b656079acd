"""Two API processes share a store: keys and logins; and a remote command line checks a certificate."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2

from tests.support.processes import leveret
from tests.support.processes.children import python_env
from tests.support.servers.certificates import Authority
from tests.support.servers.receiver import Receiver
from tests.support.system.api import serving
from tests.support.system.daemon import Daemon
from tests.support.system.endpoints import all_delivered, requests_of
from tests.support.system.waiting import until
from tests.support.visitor import Visitor

KEYS = 20


async def test_one_key_publishes_one_event_over_two_processes(shared: Daemon, receiver: Receiver) -> None:
    """Both get each request at the same time; one of them publishes, and both know the event."""
    target, before = "/ok/two-processes", shared.metric("leveret_subscriptions")
    events = "/v1/tenants/doubled/events"
    async with serving(shared) as one, serving(shared) as two:
        token = await one.token("--scope", "operate")
        async with one.client(token) as client, two.client(token) as other:
            fields = {"name": "shop", "url": receiver.url(target), "events": ["#"]}
            await client.post("/v1/tenants/doubled/subscriptions", json=fields)
            await until(lambda: shared.metric("leveret_subscriptions") > before, "the daemon knows it")

            async def both(key: str) -> list[httpx2.Response]:
                body, headers = {"type": "order.created", "data": key}, {"Idempotency-Key": key}
                return await asyncio.gather(
                    *(each.post(events, json=body, headers=headers) for each in (client, other))
                )

            keys = [f"two-{number}" for number in range(KEYS)]
            answers = [await both(key) for key in keys]
            await all_delivered(receiver, target, keys)

    assert [[each.status_code for each in pair] for pair in answers] == [[202, 202]] * KEYS
    assert [sorted(each.json()["repeated"] for each in pair) for pair in answers] == [[False, True]] * KEYS
    assert [len(requests_of(receiver, target, key)) for key in keys] == [1] * KEYS


async def test_a_restart_keeps_a_login(shared: Daemon) -> None:
    """The cookie of the process before is still one of ours."""
    async with serving(shared) as api:
        token = await api.token("--scope", "admin")
        async with httpx2.AsyncClient(base_url=api.url, trust_env=False) as client:
            visitor = Visitor(client)
            await visitor.log_in(token, "/tokens")
            cookies = dict(client.cookies)
    async with serving(shared) as api, httpx2.AsyncClient(base_url=api.url, trust_env=False) as client:
        client.cookies.update(cookies)
        visitor = Visitor(client)
        assert "Tokens" in await visitor.see("/tokens")
        assert (await visitor.send("/logout")).status_code == 303


async def test_a_remote_command_line_checks_the_certificate(shared: Daemon, tmp_path: Path) -> None:
    """With `--ca-file` it trusts that authority; without, and with another one, nothing is sent."""
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "Other CA")
    pair = authority.pair("127.0.0.1")
    files = {"TLS_CERTIFICATE": tmp_path / "server.pem", "TLS_KEY": tmp_path / "server.key"}
    files["TLS_CERTIFICATE"].write_text(pair.certificate)
    files["TLS_KEY"].touch(mode=0o600)
    files["TLS_KEY"].write_text(pair.key)
    settings = {name: str(path) for name, path in files.items()}
    async with serving(shared, "https", **settings) as api:
        token = tmp_path / "token"
        token.touch(mode=0o600)
        token.write_text(await api.token("--scope", "read"))
        remote = ("--server", api.url, "--token-file", str(token))

        async def listed(*options: str) -> tuple[int, str]:
            words = (*remote, *options, "subscriptions", "list")
            env = python_env() | {"LEVERET_HOME": str(tmp_path / "far")}
            done = await asyncio.to_thread(leveret.run, *words, env=env)
            return done.returncode, done.stderr

        right = await listed("--ca-file", authority.file)
        wrong, none = await listed("--ca-file", stranger.file), await listed()
        requests = api.log.read_text().count('"api.requested"')

    assert right[0] == 0, right[1]
    for code, err in (wrong, none):
        assert code != 0
        assert "certificate" in err.lower()
        assert "--ca-file" in err
    assert requests >= 1
