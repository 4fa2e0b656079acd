"""The whole site of pages, in the order in which addresses are compared."""

from __future__ import annotations

from typing import Final

from consumer.web.pages_routes import (
    audit,
    customer,
    endpoints,
    events,
    jobs,
    login,
    overview,
    parked,
    resend,
    search,
    static,
    tenants,
    tokens,
)

PAGE_ROUTERS: Final = (
    static.router,
    login.router,
    overview.router,
    endpoints.router,
    resend.router,  # before the page of one entry, which would take its address
    parked.router,
    jobs.router,
    events.router,
    search.router,
    tenants.router,
    tokens.router,
    audit.router,
    customer.router,
)
"""Every part of the site; a new one is added here."""
