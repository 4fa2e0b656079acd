"""What holds for every request: problems, limits, headers, ids, the access log, the check of the host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from consumer.web.shared.boundary import client_address
from tests.support.web import SHOP, Api, opened_api, problem

LIST = "/v1/tenants/acme/subscriptions"


async def test_health_needs_no_token(api: Api) -> None:
    """It is ok before a store exists, too."""
    async with api.client() as client:
        answer = await client.get("/v1/health")

    assert answer.status_code == 200
    assert answer.json()["status"] == "ok"


async def test_unknown_paths_and_methods_are_problems(api: Api) -> None:
    """404 and 405 name the remedy; 405 lists the methods."""
    async with api.client() as client:
        problem(await client.get("/v2/nothing"), 404)
        wrong = await client.put("/v1/health")

    problem(wrong, 405)
    assert wrong.headers["allow"] == "GET"


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b'{"url": "\\ud800"}', "application/json", 400),
        (b'{"timeout_s": NaN}', "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"url: x", "application/yaml", 415),
        (b"[]", "application/json", 422),
        (b"", "application/json", 422),
        (b'"' + b"x" * 2_000_000 + b'"', "application/json", 413),
    ],
)
async def test_a_bad_body_is_refused(api: Api, body: bytes, kind: str, status: int) -> None:
    """Each has its own status, and none is a fault of Leveret."""
    async with await api.client_of() as client:
        problem(await client.post(LIST, content=body, headers={"Content-Type": kind}), status)


async def test_a_request_with_two_lengths_is_refused(api: Api) -> None:
    """A proxy in front may read the other one, and take the rest for another request (RFC 9112, 6.1)."""
    two = {"Content-Length": "2", "Transfer-Encoding": "chunked", "Content-Type": "application/json"}
    async with await api.client_of() as client:
        answer = await client.post(LIST, content=b"{}", headers=two)

    problem(answer, 400)
    assert answer.headers["connection"] == "close"


async def test_a_body_without_a_length_is_bounded_too(tmp_path: Path) -> None:
    """It is cut while it arrives."""

    async def endless() -> Any:
        while True:
            yield b"x" * 1024

    async with opened_api(tmp_path, API__MAX_BODY_BYTES="4096") as api, await api.client_of() as client:
        problem(await client.post(LIST, content=endless()), 413)


async def test_each_answer_has_security_headers_and_an_id(api: Api) -> None:
    """A harmless id of the client is kept, a hostile one is replaced."""
    async with await api.client_of() as client:
        kept = await client.get(LIST, headers={"X-Request-Id": "my-id_1"})
        replaced = await client.get(LIST, headers={"X-Request-Id": "a b"})

    assert kept.headers["x-request-id"] == "my-id_1"
    assert len(replaced.headers["x-request-id"]) == 36
    assert kept.headers["cache-control"] == "no-store"
    assert kept.headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in kept.headers["content-security-policy"]


async def test_the_access_log_has_no_secret_and_no_control_character(api: Api) -> None:
    """One line for each request: who, what, how long; no token, no query, hostile text escaped."""
    token = await api.token()
    async with api.client(token) as client:
        await client.get("/v1/tenants/%1b[31m", params={"key": "hidden"})
        await client.get(LIST)
    lines = api.log.lines
    text = json.dumps(lines)

    assert [line["event"] for line in lines] == ["api.requested"] * 2
    assert lines[1] | {"duration_s": 0, "request_id": ""} == {
        "event": "api.requested",
        "level": "info",
        "request_id": "",
        "method": "GET",
        "path": LIST,
        "status": 200,
        "duration_s": 0,
        "client": "127.0.0.1",
        "who": f"token:{token.split('_')[1]}",
    }
    assert token.split("_")[2] not in text
    assert "hidden" not in text
    assert lines[0]["path"] == "/v1/tenants/\\x1b[31m"


async def test_a_foreign_host_is_refused_on_loopback(api: Api) -> None:
    """A page that points its own name to 127.0.0.1 reads nothing (DNS rebinding)."""
    async with await api.client_of() as client:
        for host in ("evil.example", "", "127.0.0.1.evil.example"):
            problem(await client.get(LIST, headers={"Host": host}), 421)
        for host in ("127.0.0.1:8090", "[::1]:8090", "localhost"):
            assert (await client.get(LIST, headers={"Host": host})).status_code == 200


async def test_behind_a_proxy_the_last_forwarded_address_counts(tmp_path: Path) -> None:
    """The proxy adds it; earlier ones are the client's own words, and any host is right."""
    async with opened_api(tmp_path, API__BEHIND_PROXY="true", API__FAILED_LOGINS_PER_MIN="1") as api:
        sent = {"Host": "api.example", "X-Forwarded-For": "6.6.6.6, 203.0.113.7"}
        other = {"Host": "api.example", "X-Forwarded-For": "203.0.113.7, 203.0.113.8"}
        async with api.client("lvt_wrong") as client:
            problem(await client.get(LIST, headers=sent), 401)
            problem(await client.get(LIST, headers=sent), 429)
            problem(await client.get(LIST, headers=other), 401)


@pytest.mark.parametrize(
    ("forwarded", "address"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("203.0.113.7:4711", "203.0.113.7"),
        ("[2001:db8::7]", "2001:db8::/64"),
        ("[2001:db8::7]:4711", "2001:db8::/64"),
        ('"[2001:db8::7]:4711"', "2001:db8::/64"),
        ("2001:db8::7", "2001:db8::/64"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("6.6.6.6, 203.0.113.7:80", "203.0.113.7"),
        ("", "127.0.0.1"),
        ("6.6.6.6:80:80", "unknown"),
        ("[6.6.6.6", "unknown"),
        ("someone", "unknown"),
    ],
)
def test_a_forwarded_address_may_have_a_port_and_brackets(forwarded: str, address: str) -> None:
    """Otherwise all clients of such a proxy would share one limit of failed logins."""
    scope = {
        "type": "http",
        "client": ("127.0.0.1", 1),
        "headers": [(b"x-forwarded-for", forwarded.encode())],
    }

    assert client_address(scope, behind_proxy=True) == address


async def test_a_store_that_is_away_is_503(api: Api) -> None:
    """The answer does not name the store's place; the client may try again."""
    async with await api.client_of() as client:
        assert (await client.post(LIST, json=SHOP)).status_code == 201
        (api.context.settings.home / "leveret.db").unlink()
        answer = await client.get(LIST)
        health = await client.get("/v1/health")

    problem(answer, 503)
    assert answer.headers["retry-after"]
    assert str(api.context.settings.home) not in answer.text
    assert (health.status_code, health.json()["store"]) == (503, "away")


async def test_a_fault_of_leveret_is_500_without_details(api: Api) -> None:
    """The log has the cause, under the id of the answer."""

    async def broken() -> None:
        raise RuntimeError("a detail for the operator")

    api.app.add_api_route("/v1/broken", broken)
    async with api.client() as client:
        answer = await client.get("/v1/broken")

    body = problem(answer, 500)
    assert "detail for" not in answer.text
    [failed] = [line for line in api.log.lines if line["event"] == "api.failed"]
    assert failed["request_id"] == body["request_id"]
