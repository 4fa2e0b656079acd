"""Send one signed webhook straight to an endpoint, past broker and daemon.

Data flow: Target -> make_trial -> the daemon's own sender, address guard included -> :class:`TrialResult`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.metadata import version

from consumer.core.changes.steps import full_name, locked_text
from consumer.core.errors import ConfigError
from consumer.core.model import Outcome
from consumer.core.store.audit import Change
from consumer.core.subscription.trial import Trial, advice, make_trial
from consumer.edges.operate.sender import make_sender
from consumer.web.access.audited import audited
from consumer.web.access.guard import Caller
from consumer.web.context import WebContext
from consumer.web.services.subscriptions import Target, unchanged_in
from consumer.web.shared.problems import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """The outcome of one test event."""

    ok: bool  #: whether the answer was 2xx
    code: str  #: a status such as ``503``, or a kind such as ``timeout_total``
    kind: str  #: such as ``ok``, ``http_5xx``, ``timeout_total``
    status: int | None
    duration_s: float
    detail: str
    advice: str | None  #: meaning and remedy of a failure
    trial: Trial
    answer: bytes  #: start of the response body, as received: escape it wherever it is shown
    answer_type: str


async def send(caller: Caller, target: Target) -> TrialResult:
    """Send one webhook ``leveret.test``; counters and the subscription stay as they are.

    Raises:
        Problem: 404, 412; 409: its secrets cannot be decrypted, or its retry policy is unusable.
        StoreUnavailable: the store cannot be read, or the audit log cannot be written; nothing was sent.
    """
    context = caller.context
    entry = unchanged_in(await context.store.entries(target.tenant), target)
    if entry.locked is not None:
        raise Problem(409, locked_text(entry), field="secrets")
    try:
        built = entry.build(context.rules)
    except ConfigError as error:
        raise Problem(409, str(error), field="retry") from None
    trial = make_trial(built, f"leveret/{version('leveret')}", context.clock.now(), os.urandom(10))
    deed = Change(action="subscription.tested", target=full_name(entry), tenant=entry.tenant)
    async with audited(caller, deed) as noted:
        outcome = await _outcome(context, trial)
        code = outcome.kind.value if outcome.status is None else str(outcome.status)
        noted["answer"] = code
    ok = outcome.status is not None and 200 <= outcome.status < 300
    return TrialResult(
        ok=ok,
        code=code,
        kind=outcome.kind.value,
        status=outcome.status,
        duration_s=round(outcome.duration_s, 6),
        detail=outcome.detail,
        advice=advice(outcome, built.on_status),
        trial=trial,
        answer=outcome.body,
        answer_type=outcome.content_type,
    )


async def _outcome(context: WebContext, trial: Trial) -> Outcome:
    sender = make_sender(context.settings)
    try:
        return await sender.send(trial.request)
    finally:
        await sender.close()
