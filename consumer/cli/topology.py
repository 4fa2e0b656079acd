"""``leveret topology show | apply | check | export | permissions``: plan, declare and compare the broker.

Data flow: settings -> TopologySpec -> plan -> printed, declared, compared or exported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

import orjson
import typer

from consumer.cli.shared.options import examples
from consumer.cli.shared.output import AsJson, errors_in_one_line, print_json, warn
from consumer.edges.broker.connection.connect import close_quietly, connect
from consumer.edges.management.snapshot import fetch_snapshot
from consumer.edges.operate.link import Link, find_broker
from consumer.settings import load_settings
from topology.check import Finding, Severity, check_snapshot
from topology.declare import declare
from topology.export import definitions, inexpressible, mermaid
from topology.message_size import size_findings
from topology.permissions import permissions
from topology.plan import BindingPlan, ExchangePlan, Plan, QueuePlan, build_plan
from topology.probe import probe

app = typer.Typer(help="Exchanges, queues and bindings on the broker.", no_args_is_help=True)


@app.command(epilog=examples("leveret topology show", "leveret topology show --mermaid"))
def show(
    as_json: AsJson = False,
    graph: Annotated[bool, typer.Option("--mermaid", help="Print a Mermaid flowchart.")] = False,
) -> None:
    """Print the planned exchanges, queues and bindings, without the broker."""
    with errors_in_one_line():
        if as_json and graph:
            raise typer.BadParameter("--json and --mermaid exclude each other")
        plan = build_plan(load_settings().topology_spec())
        if graph:
            typer.echo(mermaid(plan), nl=False)
        elif as_json:
            _print_objects(_plan_objects(plan))
        else:
            typer.echo(str(plan))
            typer.echo(f"{len(plan.queues)} queues")


@app.command(epilog=examples("leveret topology apply"))
def apply(as_json: AsJson = False) -> None:
    """Declare missing parts; a difference is an error, except in limits that follow settings."""
    with errors_in_one_line():
        settings = load_settings()
        plan = build_plan(settings.topology_spec())
        warnings = asyncio.run(_apply(plan, find_broker(settings)))
        for line in warnings:
            typer.echo(f"leveret: {line}", err=True)
        done = {
            "exchanges": len(plan.exchanges),
            "queues": len(plan.queues),
            "bindings": len(plan.bindings),
            "warnings": list(warnings),
        }
        if as_json:
            _print_objects([done])
        else:
            typer.echo("applied: {exchanges} exchanges, {queues} queues, {bindings} bindings".format(**done))


@app.command(epilog=examples("leveret topology check"))
def check(as_json: AsJson = False) -> None:
    """Compare the live broker with the plan and name each difference. Exit 1 if one is an error."""
    with errors_in_one_line():
        settings = load_settings()
        plan = build_plan(settings.topology_spec())
        findings = asyncio.run(_check(plan, find_broker(settings)))
        if as_json:
            _print_objects(_finding_object(finding) for finding in findings)
        else:
            for finding in findings:
                typer.echo(str(finding))
            typer.echo(_summary(findings))
    raise typer.Exit(1 if any(finding.severity is Severity.ERROR for finding in findings) else 0)


@app.command(epilog=examples("leveret topology export --vhost / > leveret.json"))
def export(
    vhost: Annotated[
        str | None,
        typer.Option(
            help="Virtual host to name in each entry, as `rabbitmqctl import_definitions` requires."
        ),
    ] = None,
) -> None:
    """Print RabbitMQ definitions JSON, for `rabbitmqctl import_definitions` or the management API."""
    with errors_in_one_line():
        plan = build_plan(load_settings().topology_spec())
        typer.echo(orjson.dumps(definitions(plan, vhost), option=orjson.OPT_INDENT_2).decode())
        for binding in inexpressible(plan):
            warn(f"definitions cannot hold the {binding}; after the import run `leveret topology apply`")


@app.command(
    name="permissions",
    epilog=examples("leveret topology permissions", "leveret topology permissions --no-declare"),
)
def show_permissions(
    as_json: AsJson = False,
    no_declare: Annotated[
        bool, typer.Option("--no-declare", help="For `leveret run --no-declare`: no right to configure.")
    ] = False,
) -> None:
    """Print the configure, write and read patterns that the broker's user needs."""
    with errors_in_one_line():
        needed = permissions(load_settings().topology_spec(), declare=not no_declare)
        if as_json:
            _print_objects([{"configure": needed.configure, "write": needed.write, "read": needed.read}])
        else:
            typer.echo(f"configure: {needed.configure}\nwrite:     {needed.write}\nread:      {needed.read}")


async def _apply(plan: Plan, broker: Link) -> tuple[str, ...]:
    connection = await connect(broker.options, "topology")
    try:
        return await declare(plan, connection)
    finally:
        await close_quietly(connection)


async def _check(plan: Plan, broker: Link) -> tuple[Finding, ...]:
    """Check over AMQP, and over the management API if that is known; return each finding once."""
    connection = await connect(broker.options, "topology")
    try:
        over_amqp = (*await probe(plan, connection), *await size_findings(plan, connection))
    finally:
        await close_quietly(connection)
    if broker.management is None:
        note = Finding(
            Severity.NOTE,
            "bindings, policies, plugin, feature flags and file limit",
            "were not looked at",
            "set [amqp] management_url",
        )
        return (*over_amqp, note)
    over_http = check_snapshot(plan, await fetch_snapshot(broker.management))
    return tuple(dict.fromkeys((*over_amqp, *over_http)))


def _plan_objects(plan: Plan) -> Iterator[Mapping[str, object]]:
    for name in plan.foreign_exchanges:
        yield {"kind": "exchange", "name": name, "ours": False}
    parts: tuple[ExchangePlan | QueuePlan | BindingPlan, ...] = (
        *plan.exchanges,
        *plan.queues,
        *plan.bindings,
    )
    for part in parts:
        match part:
            case ExchangePlan():
                yield {
                    "kind": "exchange",
                    "name": part.name,
                    "ours": True,
                    "type": part.type,
                    "arguments": dict(part.arguments),
                }
            case QueuePlan():
                yield {"kind": "queue", "name": part.name, "arguments": dict(part.arguments)}
            case BindingPlan():
                yield {
                    "kind": "binding",
                    "source": part.source,
                    "destination": part.destination,
                    "destination_type": part.destination_type,
                    "routing_key": part.routing_key,
                }
    yield {"kind": "sum", "queues": len(plan.queues)}


def _finding_object(finding: Finding) -> Mapping[str, object]:
    return {
        "severity": finding.severity.value,
        "subject": finding.subject,
        "text": finding.text,
        "remedy": finding.remedy,
    }


def _summary(findings: tuple[Finding, ...]) -> str:
    counts = {kind: sum(finding.severity is kind for finding in findings) for kind in Severity}
    if not any(counts.values()):
        return "the broker matches the plan"
    return ", ".join(f"{count} {kind}{'s' if count != 1 else ''}" for kind, count in counts.items() if count)


def _print_objects(objects: Iterable[Mapping[str, object]]) -> None:
    for item in objects:
        print_json(item)
