"""The addresses of every page, for proofs that look at all of them; a new page is missed at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from fastapi import FastAPI

from consumer.edges.serve.runbook import RUNBOOK_PATH
from consumer.web.pages import urls
from tests.support.web import every_route

API = re.compile(r"/(v1|webhook|static)(/|$)")
"""Paths that are no pages."""


def operator_pages(ids: Mapping[str, str]) -> dict[str, str]:
    """Return the path of each page of an operator, by its name.

    Args:
        ids: Ids of objects to show, by kind: subscription, parked, event, tenant, job.
    """
    return {
        "overview": urls.OVERVIEW,
        "endpoints": urls.ENDPOINTS,
        "endpoint": urls.endpoint(ids["subscription"]),
        "parked": urls.PARKED,
        "parked-groups": urls.with_query(urls.PARKED, {"group": "subscription"}),
        "entry": urls.entry(ids["parked"]),
        "resend": urls.with_query(urls.RESEND, {"tenant": ids["tenant"]}),
        "jobs": urls.JOBS,
        "job": urls.job(ids["job"]),
        "event": urls.event(ids["event"], ids["tenant"]),
        "search": urls.with_query(urls.SEARCH, {"q": ids["event"]}),
        "search-nothing": urls.with_query(urls.SEARCH, {"q": "no such thing"}),
        "tenants": urls.TENANTS,
        "tokens": urls.TOKENS,
        "audit": urls.AUDIT,
        "missing": "/no-such-page",
        "runbook": RUNBOOK_PATH,
    }


def customer_pages(ids: Mapping[str, str]) -> dict[str, str]:
    """Return the path of each page of a customer, by its name."""
    return {
        "my": urls.CUSTOMER,
        "my-endpoint": urls.own_endpoint(ids["subscription"]),
        "my-event": urls.own_event(ids["event"]),
        "my-search": urls.with_query(urls.SEARCH, {"q": "no such thing"}),
    }


def unseen(app: FastAPI, paths: Iterable[str]) -> list[str]:
    """Return the pages of *app* that none of *paths* shows."""
    seen = [path.partition("?")[0] for path in paths]
    pages = [path for method, path in every_route(app) if method == "GET" and not API.match(path)]
    return [page for page in pages if not any(_pattern(page).fullmatch(path) for path in seen)]


def _pattern(route: str) -> re.Pattern[str]:
    parts = re.split(r"\{\w+(?::\w+)?\}", route)
    return re.compile("[^/]+".join(map(re.escape, parts)))
