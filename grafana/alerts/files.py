"""The checked-in files of rules and cases, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from consumer.core.tools.alerts.model import AlertOptions
from consumer.core.tools.alerts.rules import GROUPS
from consumer.core.tools.alerts.template import rules_text
from grafana.alerts.case import Case, cases_document
from grafana.alerts.cases_care import CARE
from grafana.alerts.cases_delivery import DELIVERIES
from grafana.alerts.cases_worker import WORKERS

CASES: Final = (*WORKERS, *DELIVERIES, *CARE)

RULES_HEAD: Final = """\
# Alert rules for Prometheus, with the default options; `leveret alerts` prints them with yours.
# Written by `make alerts`: change consumer/core/tools/alerts, not this file.
"""
_CASES_HEAD: Final = """\
# `promtool test rules {name}`: for each alert a case in which it fires, and one just short of it.
# Written by `make alerts`: change grafana/alerts/cases_*.py, not this file.
"""


def rules_file(options: AlertOptions) -> str:
    """Return the file of rules."""
    return RULES_HEAD + rules_text(GROUPS, options)


def files(options: AlertOptions, cases: Sequence[Case] = CASES) -> Mapping[str, str]:
    """Return the text of each file by its name: the rules, the cases, and the cases that last for hours."""
    made = {"alerts.yml": rules_file(options)}
    for name, long in (("alerts_test.yml", False), ("alerts_long_test.yml", True)):
        made[name] = _CASES_HEAD.format(name=name) + _yaml(
            cases_document(cases, options, "alerts.yml", long=long)
        )
    return made


def write(folder: Path, options: AlertOptions, cases: Sequence[Case] = CASES) -> None:
    """Write the files into *folder*."""
    for name, text in files(options, cases).items():
        (folder / name).write_text(text, encoding="utf-8")


def _yaml(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)
