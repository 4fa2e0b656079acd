"""The form for thresholds and cooldown: its labels, and its fields as numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from consumer.web.shared.problems import Fault, Problem


class Label(NamedTuple):
    """How one threshold is shown."""

    label: str
    unit: str
    hint: str


LABELS: Final[Mapping[str, Label]] = {
    "failures": Label("Failures in a row", "attempts", "The breaker opens after so many; 0 switches it off."),
    "failure_ratio": Label(
        "Failure ratio", "0 to 1", "The breaker opens at this share, too; 0: at no share."
    ),
    "window_s": Label("Window of the ratio", "s", "Answers of this time count."),
    "min_requests": Label("Least answers", "attempts", "Fewer answers in the window decide nothing."),
    "cooldown_s": Label("Cooldown", "s", "From the opening to the first probe."),
    "cooldown_max_s": Label("Longest cooldown", "s", "Each failed probe doubles the cooldown, up to this."),
}
"""By the name of the form field, in the order of the form."""


def sent_thresholds(form: Mapping[str, str]) -> Mapping[str, float | None]:
    """Return the numbers of the form; None: the default.

    Raises:
        Problem: 422: one is not a number; each such field has a fault of its own.
    """
    faults: list[Fault] = []
    values: dict[str, float | None] = {}
    for name in LABELS:
        text = form.get(name, "").strip()
        number = _number(text) if text else None
        if text and number is None:
            faults.append(Fault("is not a number", name))
        values[name] = number
    if faults:
        raise Problem.of_faults(422, faults)
    return values


def refused_threshold(problem: Problem) -> Mapping[str, str]:
    """Return the faults of a problem by the name of the form field, such as ``cooldown_s``."""
    return {
        (fault.field or "").rpartition(".")[2]: "; ".join(filter(None, (fault.detail, fault.remedy)))
        for fault in problem.faults
    }


def _number(text: str) -> float | None:
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        return None
    return number if math.isfinite(number) else None
