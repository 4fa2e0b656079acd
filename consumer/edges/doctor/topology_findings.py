"""Turn the findings of ``topology check`` into those of the doctor.

Data flow: topology.check.Finding -> the check that it belongs to -> Finding. Missing parts of a broker on
which nothing was declared yet become one line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from consumer.core.tools.doctor.finding import Check, Finding, Level, fault, note, warning, well
from topology import check
from topology.plan import Plan

_LEVELS = {
    check.Severity.ERROR: Level.FAULT,
    check.Severity.WARNING: Level.WARNING,
    check.Severity.NOTE: Level.NOTE,
}
_MISSING = "does not exist"
_UNCOMPARED = "were not compared over AMQP"
_WELL = (
    (Check.PLUGIN, "plugins", "those that the plan needs are enabled"),
    (Check.POLICIES, "policies", "none interferes with our queues and exchanges"),
    (Check.HANDLES, "nodes of the broker", "have enough file handles for the queues"),
)
"""The checks that need the management API, or another way, to be well."""


def of_topology(
    plan: Plan, found: Sequence[check.Finding], *, declares: bool, looked: bool
) -> Iterator[Finding]:
    """Yield the findings, and one for each check without any.

    Args:
        plan: The plan that the broker was compared with.
        found: Its differences.
        declares: Whether the worker creates missing parts itself.
        looked: Whether the management API answered.
    """
    missing = [
        each
        for each in found
        if each.text == _MISSING and each.remedy == check.missing_finding("", "").remedy
    ]
    is_new = len({each.subject for each in missing} & _parts(plan)) == len(_parts(plan))
    others = [each for each in found if not is_new or each not in missing]
    if is_new:
        yield _nothing_declared(plan, declares=declares)
    findings = [_converted(each) for each in others if not (declares and each.text.startswith(_UNCOMPARED))]
    yield from findings
    yield from _summaries({each.check for each in findings}, plan, is_new=is_new, looked=looked)


def _parts(plan: Plan) -> set[str]:
    exchanges = {f"exchange {each.name}" for each in plan.exchanges}
    return exchanges | {f"queue {each.name}" for each in plan.queues}


def _nothing_declared(plan: Plan, *, declares: bool) -> Finding:
    subject, text = f"{plan.prefix}.*", "no queue and no exchange of ours exists yet"
    if declares:
        return warning(
            Check.TOPOLOGY, subject, text, "`leveret run` creates them; or run `leveret topology apply`"
        )
    return fault(
        Check.TOPOLOGY, subject, text, "run `leveret topology apply`, as [topology] declare is false"
    )


def _converted(each: check.Finding) -> Finding:
    return Finding(
        level=_LEVELS[each.severity],
        check=_check_of(each),
        subject=each.subject,
        text=each.text,
        remedy=each.remedy,
    )


def _check_of(each: check.Finding) -> Check:
    if each.subject.startswith("plugin "):
        return Check.PLUGIN
    if each.subject.startswith("feature flag "):
        return Check.VERSION
    if each.subject.startswith(("node ", "open-file limit ")):
        return Check.HANDLES
    return Check.POLICIES if each.text.startswith("policy ") else Check.TOPOLOGY


def _summaries(found: set[Check], plan: Plan, *, is_new: bool, looked: bool) -> Iterator[Finding]:
    for each, subject, text in _WELL:
        if each in found or (each is Check.PLUGIN and not looked):
            continue
        if looked:
            yield well(each, subject, text)
        else:
            unknown = "were not looked at: the management API is not known, or does not answer"
            yield note(each, subject, unknown, "set [amqp] management_url")
    if Check.TOPOLOGY not in found and not is_new:
        yield well(Check.TOPOLOGY, f"{plan.prefix}.*", f"{len(plan.queues)} queues are as planned")
