"""Name the address of each page and form, with every part quoted."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

OVERVIEW = "/"
LOGIN = "/login"
LOGOUT = "/logout"
ENDPOINTS = "/endpoints"
PARKED = "/parked"
RESEND = "/parked/resend"
JOBS = "/jobs"
TENANTS = "/tenants"
TOKENS = "/tokens"
AUDIT = "/audit"
SEARCH = "/search"
CUSTOMER = "/my"
CUSTOMER_RESEND = "/my/parked/resend"
STATIC = "/static"


def endpoint(subscription_id: str, step: str = "") -> str:
    """Return the page of an endpoint, or the address of a form on it."""
    return _under(ENDPOINTS, subscription_id, step)


def entry(entry_id: str, step: str = "") -> str:
    """Return the page of a parked entry, or the address of a form on it."""
    return _under(PARKED, entry_id, step)


def job(job_id: str, step: str = "") -> str:
    """Return the page of a replay job, or the address of a form on it."""
    return _under(JOBS, job_id, step)


def token(token_id: str, step: str) -> str:
    """Return the address of a form for a token."""
    return _under(TOKENS, token_id, step)


def event(event_id: str, tenant: str = "") -> str:
    """Return the timeline of an event; two tenants may have events with the same id."""
    return with_query(_under("/events", event_id), {"tenant": tenant})


def own_endpoint(subscription_id: str, step: str = "") -> str:
    """Return the page of an endpoint in the customer's view, or the address of a form on it."""
    return _under("/my/endpoints", subscription_id, step)


def own_event(event_id: str) -> str:
    """Return the timeline of an event in the customer's view."""
    return _under("/my/events", event_id)


def with_query(path: str, values: Mapping[str, object]) -> str:
    """Return *path* with the values that are not empty as its query."""
    chosen = {name: str(value) for name, value in values.items() if value not in (None, "")}
    return f"{path}?{urlencode(chosen)}" if chosen else path


def _under(path: str, part: str, step: str = "") -> str:
    whole = f"{path}/{quote(part, safe='')}"
    return f"{whole}/{step}" if step else whole
