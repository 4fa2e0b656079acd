"""``leveret policy list | show``: print the retry policies that a subscription may name.

Data flow: settings -> policies, built-in and own -> sequence, picture and numbers.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated

import typer

from consumer.cli.shared.complete import policy_names
from consumer.cli.shared.options import examples
from consumer.cli.shared.output import AsJson, errors_in_one_line, print_json, print_rows
from consumer.core.errors import ConfigError
from consumer.core.retry.policy import RetryPolicy, max_age_s
from consumer.core.retry.timeline import draw, is_logarithmic, policy_as_dict, steps, summary
from consumer.core.text.durations import format_duration
from consumer.core.text.printable import printable
from consumer.settings import Settings, load_settings

app = typer.Typer(help="Retry policies: when a delivery is tried again.", no_args_is_help=True)

WIDTH = 60
"""Columns of the timeline."""
ROWS_MAX = 50
"""Attempts in the table for people, at most; a policy may have 1,000 alike."""

PolicyName = Annotated[str, typer.Argument(metavar="NAME", help="Policy.", autocompletion=policy_names)]


@app.command("list", epilog=examples("leveret policy list", "leveret policy list --json"))
def list_(as_json: AsJson = False) -> None:
    """Print every policy with its waits. An asterisk marks the default for subscriptions that name none."""
    with errors_in_one_line():
        settings = load_settings()
        policies = _policies(settings)
    rows = [_row(name, policy, is_default=policy == _default(settings)) for name, policy in policies.items()]
    columns = ("policy", "attempts", "waits", "sum", "jitter", "max_age")
    if as_json:
        for row in rows:
            print_json(row["json"] if isinstance(row["json"], Mapping) else {})
        return
    print_rows(columns, rows, as_json=False)


@app.command(epilog=examples("leveret policy show default", "leveret policy show standard-webhooks --json"))
def show(name: PolicyName, as_json: AsJson = False) -> None:
    """Print one policy: each attempt with its wait and time, and a timeline of all."""
    with errors_in_one_line():
        policies = _policies(load_settings())
        policy = policies.get(name)
        if policy is None:
            near = difflib.get_close_matches(name, policies, n=1)
            remedy = f"did you mean {near[0]}?" if near else "see `leveret policy list`"
            raise ConfigError(f"no policy {name!r}; {remedy}")
    if as_json:
        print_json(policy_as_dict(policy) | {"name": name})
        return
    typer.echo(printable(f"{name}: {summary(policy)}"))
    typer.echo(f"a delivery ends after {format_duration(max_age_s(policy))} in any case\n")
    typer.echo(_picture(policy) + "\n")
    rows = [
        {
            "attempt": step.attempt,
            "wait": format_duration(step.wait_s) if step.attempt > 1 else None,
            "with_jitter": _spread(step.wait_min_s, step.wait_max_s),
            "at": format_duration(step.at_s),
        }
        for step in steps(policy)[:ROWS_MAX]
    ]
    print_rows(("attempt", "wait", "with_jitter", "at"), rows, as_json=False)
    if policy.max_attempts > ROWS_MAX:
        typer.echo(f"… and {policy.max_attempts - ROWS_MAX} more; --json prints all")


def _policies(settings: Settings) -> Mapping[str, RetryPolicy]:
    return settings.subscription_rules().policies


def _default(settings: Settings) -> RetryPolicy:
    return settings.subscription_rules().retry


def _row(name: str, policy: RetryPolicy, *, is_default: bool) -> dict[str, object]:
    waits = [format_duration(step.wait_s) for step in steps(policy)[1:]]
    return {
        "policy": f"{name}{' *' if is_default else ''}",
        "attempts": policy.max_attempts,
        "waits": ", ".join(waits[:10]) + (", …" if len(waits) > 10 else ""),
        "sum": format_duration(round(sum(step.wait_s for step in steps(policy)), 3)),
        "jitter": f"±{policy.jitter_ratio:.0%}" if policy.jitter_ratio else None,
        "max_age": format_duration(max_age_s(policy)),
        "json": policy_as_dict(policy) | {"name": name, "is_default": is_default},
    }


def _picture(policy: RetryPolicy) -> str:
    end = format_duration(steps(policy)[-1].at_s)
    scale = "  (logarithmic)" if is_logarithmic(policy) else ""
    return f"0 s {draw(policy, WIDTH)} {end}{scale}"


def _spread(low_s: float, high_s: float) -> str | None:
    return f"{format_duration(low_s)} to {format_duration(high_s)}" if high_s > low_s else None
