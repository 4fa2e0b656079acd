"""Turn endpoints as the services know them into lines of tables."""

from __future__ import annotations

from consumer.web.pages.views.parts import Condition, EndpointLine, LastError, Series, State
from consumer.web.services.endpoints import EndpointValues


def endpoint_line(values: EndpointValues) -> EndpointLine:
    """Return an endpoint as tables show it."""
    error, state = values.last_error, values.condition
    return EndpointLine(
        subscription_id=values.subscription_id,
        tenant=values.tenant,
        name=values.name,
        url=values.url,
        condition=Condition(
            state=State(state.state), since=state.since, until=state.until, reason=state.reason
        ),
        success_ratio=values.success_ratio,
        p95_s=values.p95_s,
        waiting=values.waiting,
        parked=values.parked,
        last_error=None
        if error is None
        else LastError(
            at=error.at,
            code=error.code,
            detail=error.detail,
            answer=error.answer,
            answer_type=error.answer_type,
        ),
        success=Series(values=values.success, high=1.0),
    )
