"""Translate between the fields of a subscription and the camelCase form with milliseconds.

Data flow: ``{"endpointUrl", "retryConfig": {"baseDelay"}}`` -> :func:`fields_of` -> the fields of a
subscriptions file -> services; and a stored subscription -> :func:`form_of`.

Source: S0-4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from consumer.core.changes.view import Seen
from consumer.core.retry.policy_text import milliseconds, retry_config
from consumer.core.text.urls import show_url
from consumer.web.shared.problems import Fault, Problem

_NAMES: Final = {"endpointUrl": "url", "secret": "secrets", "retryConfig": "retry"}
_RETRY: Final = {
    "maxAttempts": "max_attempts",
    "baseDelay": "base_s",
    "multiplier": "multiplier",
    "maxDelay": "max_s",
    "jitterFactor": "jitter",
}
_BACK: Final = {
    **{ours: theirs for theirs, ours in _NAMES.items()},
    **{f"retry.{ours}": f"retryConfig.{theirs}" for theirs, ours in _RETRY.items()},
}


def fields_of(form: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of a subscriptions file; null stays null, so that a merge patch works too."""
    fields: dict[str, object] = {}
    for name, value in form.items():
        field = _NAMES.get(name, name)
        if name == "retryConfig" and isinstance(value, Mapping):
            fields[field] = _retry_of(value)
        else:
            fields[field] = [value] if name == "secret" and value is not None else value
    return fields


def _retry_of(config: Mapping[str, object]) -> dict[str, object]:
    retry: dict[str, object] = {}
    for name, value in config.items():
        if name in ("baseDelay", "maxDelay") and isinstance(value, int | float):
            retry[_RETRY[name]] = value / 1000
        elif name in _RETRY:
            retry[_RETRY[name]] = value
    if config.get("enableJitter") is False:
        retry["jitter"] = 0
    return retry


def form_of(seen: Seen) -> dict[str, object]:
    """Return a subscription in this form, with its effective retry configuration and without its secret."""
    entry, built = seen.entry, seen.built
    return {
        "id": entry.id,
        "tenant": entry.tenant,
        "name": entry.label,
        "endpointUrl": show_url(entry.url),
        "events": list(entry.events),
        "enabled": entry.enabled,
        "paused": seen.paused,
        "timeout": milliseconds(built.timeout_s),
        "retryConfig": None if seen.fault is not None else retry_config(built.retry),
    }


def translated(problem: Problem) -> Problem:
    """Return *problem* with the names of this form in its fields."""
    return Problem.of_faults(problem.status, list(map(_renamed, problem.faults)), problem.headers)


def _renamed(fault: Fault) -> Fault:
    if fault.field is None:
        return fault
    head = fault.field.partition("[")[0]
    return replace(fault, field=_BACK.get(fault.field) or _BACK.get(head, fault.field))
