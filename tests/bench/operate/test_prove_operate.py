"""The proofs of the API and of the pages: their promises, their arithmetic, and the quick ones in small."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from bench.operate import apply, foreign, fuzz
from bench.operate.bodies import smallest
from bench.operate.foreign import Request, fault_of, paths
from bench.operate.ground import MARK, laid_out
from bench.operate.hostile_words import COUNT, hostile_words
from bench.operate.load import ApiLoad
from bench.operate.places import unseen
from bench.prove import Bench, run_proof
from bench.prove_operate import PROOFS
from tests.support.servers.raw_server import RawServer, ok, says

ISSUE_TABLE = {
    "night_steps_failed": "0",
    "night_seconds_to_cause": "≤ 10",
    "schemathesis_5xx": "0",
    "schemathesis_schema_errors": "0",
    "foreign_reads": "0",
    "xss_executed": "0",
    "accessibility_violations": "0",
    "page_ms": "≤ 150",
    "delivery_cost_serve": "≥ 0.9",
    "delivery_cost_run": "≥ 0.8",
    "api_apply_1000_s": "≤ 20",
    "api_visible_s": "≤ 1",
}


def test_the_proofs_have_the_promised_names_and_goals() -> None:
    """Every figure of the table is measured, against its goal, over enough cases."""
    goals = [goal for proof in PROOFS for goal in proof.goals]

    assert {goal.name: goal.text for goal in goals} == ISSUE_TABLE
    least = {goal.name: goal.n for goal in goals}
    assert (least["schemathesis_5xx"], least["xss_executed"], least["api_apply_1000_s"]) == (
        5_000,
        200,
        1_000,
    )


async def test_the_api_is_filled_in_small(tmp_path: Path, vhost: str) -> None:
    """On both databases each subscription is created once, and the last one comes into force."""
    bench = Bench(folder=tmp_path / "run", scale=0.016, amqp_url=vhost)

    figures = {figure.name: figure for figure in await run_proof(apply.PROOF, bench)}

    assert "operate_apply_error" not in bench.notes
    assert (figures["api_apply_1000_s"].n, figures["api_visible_s"].n) == (16, 2)
    assert 0 < (figures["api_visible_s"].value or 0) < apply.PATIENCE_S


async def test_the_api_is_fuzzed_and_robbed_in_small(tmp_path: Path, vhost: str) -> None:
    """A few dozen generated requests, and every route with each foreign id: no fault and no foreign read."""
    bench = Bench(folder=tmp_path, scale=0.02, amqp_url=vhost)

    async with laid_out(bench) as ground:
        robbed = await foreign.measure(bench, ground)
        fuzzed = await fuzz.measure(bench, ground)

    assert (robbed.value, bench.notes["foreign_found"]) == (0, [])
    assert robbed.n >= 100
    assert [(each.value, each.valid) for each in fuzzed] == [(0, True)] * 2, bench.notes
    assert all(each.n >= 100 for each in fuzzed)


def test_a_foreign_read_is_found() -> None:
    """An answer with a word of the other tenant, and any success for its id; not an echo of the request."""
    own = Request(method="GET", path="/v1/tenants")
    asked = Request(method="GET", path=f"/v1/events/{MARK}", names_foreign=True)

    def answered(request: Request, status: int, text: str) -> str:
        return fault_of(request, httpx2.Response(status, text=text), [MARK, "prk_1"])

    assert not answered(own, 200, "mine")
    assert not answered(asked, 404, f"no {MARK}")
    assert MARK in answered(own, 200, f"oh {MARK}")
    assert "prk_1" in answered(asked, 404, "see prk_1")
    assert answered(asked, 200, "")
    assert answered(asked, 422, "")


def test_each_foreign_id_is_tried_in_each_place() -> None:
    """The caller's own tenant is kept in turn, so that an id is tried below it too."""
    assert dict(paths("/v1/tenants/{tenant}/subscriptions/{subscription}", ["acme", "s/1"])) == {
        "/v1/tenants/rival/subscriptions/acme": True,
        "/v1/tenants/rival/subscriptions/s%2F1": True,
        "/v1/tenants/acme/subscriptions/acme": True,
        "/v1/tenants/acme/subscriptions/s%2F1": True,
        "/v1/tenants/s%2F1/subscriptions/acme": True,
        "/v1/tenants/s%2F1/subscriptions/s%2F1": True,
    }
    assert list(paths("/v1/tenants", ["acme"])) == [("/v1/tenants", False)]


def test_the_smallest_body_has_the_required_fields() -> None:
    """References, choices, lengths and bounds are obeyed."""
    fields = {
        "a": {"type": "string", "minLength": 3},
        "b": {"$ref": "#/defs/b"},
        "c": {"anyOf": [{"enum": [7]}]},
        "d": {},
    }
    document = {"defs": {"b": {"type": "array", "items": {"type": "integer", "minimum": 4}, "minItems": 1}}}
    kind = {"type": "object", "required": ["a", "b", "c"], "properties": fields}

    assert smallest(document, kind) == {"a": "xxx", "b": [4], "c": 7}


def test_the_hostile_strings_differ_and_may_be_names() -> None:
    """Each is printable, short enough for a name, and has no blank at its ends."""
    words = hostile_words()

    assert len(set(words)) == COUNT
    assert all(word.isprintable() and 0 < len(word) <= 128 and word == word.strip() for word in words)


def test_a_page_that_no_proof_shows_is_found() -> None:
    """A route of the app counts as seen if a path fits it; the API's own routes are no pages."""
    app = FastAPI()
    for path in ("/things/{thing}", "/v1/things/{thing}"):
        app.add_api_route(path, lambda thing: thing)

    before = set(unseen(app, ["/things/1"]))

    assert set(unseen(app, ["/things"])) == before | {"/things/{thing}"}
    assert not any(page.startswith("/v1") for page in before)


@pytest.mark.parametrize("answer", [b"200 OK", b"503 Away"])
async def test_the_load_is_steady_and_counts_its_answers(answer: bytes) -> None:
    """Only answers with 200, at the wanted rate until the end, are a right load."""
    async with RawServer(says(ok(status=answer, body=b"{}"))) as server:
        load = ApiLoad(server.port, "lvt_x", ("/a", "/b"), rate_per_s=200)
        async with load.running(), asyncio.timeout(20):
            while load.statuses.total() < 100:  # noqa: ASYNC110 - the server decides
                await asyncio.sleep(0.01)

    assert load.statuses.total() >= 100
    began, ended = load.answered[0], load.answered[99]
    is_reached = load.rate_within(began, ended) >= 180
    assert load.is_right(began, ended) == (answer == b"200 OK" and is_reached)
    assert not load.is_right(began, ended + 10)
    assert b"authorization: bearer lvt_x" in server.requests[0].lower()
