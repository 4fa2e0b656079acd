"""At least 5,000 requests that schemathesis generates from the API's own document, valid ones and wrong ones.

The real ``leveret serve`` answers them, with a worker, a store and a broker behind it. Each answer must be no
fault of the server, and agree with the document: status, type, headers and content.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from bench.operate.ground import Ground, laid_out
from bench.prove import Bench, Goal, Measured, Proof

REQUESTS = 5_000
EXTRA = 1.3  #: more are asked for: a small schema has fewer different examples than wanted
CHECKS = [
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)

GOALS = (
    Goal(name="schemathesis_5xx", text="0", unit="answers", n=REQUESTS),
    Goal(name="schemathesis_schema_errors", text="0", unit="answers", n=REQUESTS),
)


@dataclass(slots=True)
class Fuzz:
    """The requests of one run and what was wrong with their answers."""

    url: str
    token: str
    statuses: Counter[int] = field(default_factory=Counter)
    by_route: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)  #: answers 401, by route
    broken: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def send(self, case: Case[Any]) -> None:
        """Send one request and judge its answer."""
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = case.call(base_url=self.url, headers=headers, timeout=30)
        name = f"{case.method} {case.path}"
        self.statuses[answer.status_code] += 1
        self.by_route[name] += 1
        self.refused[name] += answer.status_code == 401
        if answer.status_code >= 500:
            self.broken.append(f"{case.as_curl_command()}: {answer.status_code} {answer.text[:300]}")
        try:
            case.validate_response(answer, checks=CHECKS)
        except FailureGroup as group:
            self.faults += [f"{name} {answer.status_code}: {each}"[:600] for each in group.exceptions]


def run(fuzz: Fuzz, wanted: int) -> int:
    """Send at least *wanted* requests, spread over all routes; return the number of routes."""
    document = schemathesis.openapi.from_url(f"{fuzz.url}/v1/openapi.json")
    operations = [found.ok() for found in document.get_all_operations() if isinstance(found, Ok)]
    each = max(1, round(EXTRA * wanted / len(operations) / len(MODES)))
    for operation in operations:
        for mode in MODES:

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(
                max_examples=each,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            def sent(case: Case[Any]) -> None:
                fuzz.send(case)

            with suppress(Unsatisfiable):  # a route that takes nothing cannot be given anything wrong
                sent()
    return len(operations)


async def measure(bench: Bench, ground: Ground) -> Sequence[Measured]:
    """Fuzz the served API in a thread."""
    wanted = bench.count(REQUESTS, 20)
    fuzz = Fuzz(ground.api.url, ground.admin)
    routes = await asyncio.to_thread(run, fuzz, wanted)
    count = fuzz.statuses.total()
    bench.note("schemathesis_routes", routes)
    bench.note("schemathesis_statuses", dict(sorted(fuzz.statuses.items())))
    bench.note("schemathesis_refused", dict(+fuzz.refused))
    bench.note("schemathesis_broken", fuzz.broken[:30])
    bench.note("schemathesis_faults", sorted(set(fuzz.faults))[:30])
    reached = len(fuzz.by_route) == routes
    return [
        Measured(name="schemathesis_5xx", value=len(fuzz.broken), n=count, valid=reached),
        Measured(name="schemathesis_schema_errors", value=len(fuzz.faults), n=count, valid=reached),
    ]


async def prove(bench: Bench) -> Sequence[Measured]:
    """Fuzz everything."""
    async with laid_out(bench) as ground:
        return await measure(bench, ground)


PROOF = Proof("operate_fuzz", GOALS, prove)
