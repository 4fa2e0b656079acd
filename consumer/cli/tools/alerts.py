"""``leveret alerts``: print the alert rules for Prometheus, with the names of one installation.

Data flow: options -> AlertOptions -> rules -> YAML on stdout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from consumer.cli.shared.options import examples, takes
from consumer.cli.shared.output import errors_in_one_line
from consumer.core.errors import ConfigError
from consumer.core.tools.alerts.model import RUNBOOK_URL, AlertOptions
from consumer.core.tools.alerts.rules import GROUPS
from consumer.core.tools.alerts.template import rules_text

_HEAD = "# Alert rules for Prometheus, written by `leveret alerts`.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerts:
    """The command line of ``leveret alerts``."""

    job: Annotated[
        str, typer.Option(metavar="NAME", help="Scrape job of the workers, or a regular expression.")
    ] = "leveret"
    rabbitmq_job: Annotated[
        str, typer.Option(metavar="NAME", help="Scrape job of RabbitMQ; '' leaves its rules out.")
    ] = "rabbitmq"
    rabbitmq_cluster: Annotated[
        str, typer.Option(metavar="NAME", help="Our cluster, if that job scrapes several.")
    ] = ""
    by: Annotated[
        str, typer.Option(metavar="LABELS", help="Labels by which installations differ, with commas.")
    ] = "job"
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Label of every alert, instead of service=leveret; repeat."),
    ] = None
    runbook_url: Annotated[
        str, typer.Option(metavar="URL", help="Page of the runbook; each alert adds its section.")
    ] = RUNBOOK_URL
    threshold: Annotated[
        list[str] | None, typer.Option(metavar="NAME=NUMBER", help="Change a threshold; may be repeated.")
    ] = None
    without: Annotated[
        list[str] | None, typer.Option(metavar="ALERT", help="Leave an alert out; may be repeated.")
    ] = None
    time_factor: Annotated[
        float, typer.Option(metavar="FACTOR", help="Multiply every duration; below 1 for trials.")
    ] = 1.0

    def options(self) -> AlertOptions:
        """Return the options of the rules.

        Raises:
            ConfigError: one of them is not usable.
        """
        labels = {} if self.label is None else {"labels": dict(_pairs("--label", self.label))}
        return AlertOptions(
            job=self.job,
            rabbitmq_job=self.rabbitmq_job,
            rabbitmq_cluster=self.rabbitmq_cluster,
            by=tuple(filter(None, (name.strip() for name in self.by.split(",")))),
            runbook_url=self.runbook_url,
            thresholds=dict(_numbers(self.threshold or ())),
            without=frozenset(self.without or ()),
            time_factor=self.time_factor,
            **labels,
        )


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    app.command(
        "alerts",
        epilog=examples(
            "leveret alerts > alerts.yml",
            "leveret alerts --job webhooks --rabbitmq-job mq --by job,cluster > alerts.yml",
            "leveret alerts --runbook-url https://wiki.example/leveret --threshold parked=500"
            " --without LeveretSecretEnds > alerts.yml",
        ),
    )(takes(Alerts)(alerts))


def alerts(options: Alerts) -> None:
    """Print the alert and recording rules for Prometheus, with your job names and thresholds.

    The reference lists the thresholds. `promtool check rules` accepts the file.
    """
    with errors_in_one_line():
        typer.echo(_HEAD + rules_text(GROUPS, options.options()), nl=False)


def _pairs(option: str, given: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"{option} {text}: write NAME=VALUE")
        yield name, value


def _numbers(given: Sequence[str]) -> Iterator[tuple[str, float]]:
    for name, value in _pairs("--threshold", given):
        try:
            yield name, float(value)
        except ValueError:
            raise ConfigError(f"--threshold {name}={value}: write a number after =") from None
