"""Every sample page by its path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from consumer.web.pages.views.access import ErrorPage, LoginPage
from consumer.web.pages.views.parts import Flash, Page
from docs.page_preview import endpoints, others, parked
from docs.page_preview.endpoints import EVENT, FAILING, LINES, NOW, SHELL


def pages() -> Mapping[str, Page]:
    """Return the sample pages; paths below ``/other`` are further states of a page."""
    flash = replace(SHELL, flash=Flash(text="The cooldown of acme/orders is 60 s now."))
    return {
        "/login": LoginPage(shell=replace(SHELL, user=""), error="This token is not valid.", next="/parked"),
        "/": others.overview_page(SHELL),
        "/other/calm": others.calm_page(SHELL),
        "/endpoints": endpoints.endpoints_page(SHELL),
        **{f"/endpoints/{line.subscription_id}": endpoints.endpoint_page(SHELL, line) for line in LINES},
        f"/endpoints/{FAILING.subscription_id}": endpoints.endpoint_page(flash),
        "/parked": parked.parked_page(SHELL),
        **{f"/parked/{line.id}": parked.entry_page(SHELL) for line in parked.LINES},
        "/other/hex": parked.entry_page(SHELL, parked.PROTOBUF, "application/x-protobuf"),
        "/parked/resend": parked.resend_page(SHELL),
        "/jobs": parked.jobs_page(SHELL),
        f"/jobs/{parked.job().id}": parked.job_page(replace(SHELL, refresh_s=2)),
        f"/events/{EVENT}": others.event_page(SHELL),
        "/search": others.search_page(SHELL),
        "/tenants": others.tenants_page(SHELL),
        "/tokens": others.tokens_page(SHELL),
        "/audit": others.audit_page(SHELL),
        "/my": others.customer_page(SHELL),
        f"/my/endpoints/{FAILING.subscription_id}": others.customer_endpoint_page(SHELL),
        "/other/error": ErrorPage(
            shell=SHELL,
            status=404,
            name="Not Found",
            detail="There is no subscription sub_ffffffffffffffff.",
            remedy="Open the list of endpoints; it may have been deleted.",
            request_id=f"req_{int(NOW):x}",
        ),
    }


def named() -> Mapping[str, str]:
    """Return the path of each page that screenshots and checks visit, by a short name."""
    return {
        "overview": "/",
        "overview-calm": "/other/calm",
        "endpoints": "/endpoints",
        "endpoint": f"/endpoints/{FAILING.subscription_id}",
        "parked": "/parked",
        "entry": f"/parked/{parked.LINES[2].id}",
        "entry-hex": "/other/hex",
        "resend": "/parked/resend",
        "jobs": "/jobs",
        "job": f"/jobs/{parked.job().id}",
        "event": f"/events/{EVENT}",
        "search": "/search",
        "tenants": "/tenants",
        "tokens": "/tokens",
        "audit": "/audit",
        "customer": "/my",
        "customer-endpoint": f"/my/endpoints/{FAILING.subscription_id}",
        "login": "/login",
        "error": "/other/error",
    }
