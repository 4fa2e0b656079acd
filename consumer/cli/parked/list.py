"""``leveret parked list | stats``: read the index of parked entries in the store; no message is taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from consumer.cli.parked.index import parked_index
from consumer.cli.parked.options import Chosen, Limit
from consumer.cli.shared.options import examples, takes
from consumer.cli.shared.output import AsJson, errors_in_one_line, print_fields, print_json, print_rows
from consumer.core.message.parked_filter import Filter, GroupBy, grouped
from consumer.core.message.records import row_as_cells, row_as_dict

COLUMNS = ("id", "parked_at", "tenant", "type", "reason", "failed_attempts", "last_failure_code", "detail")


@dataclass(frozen=True, slots=True, kw_only=True)
class List(Chosen):
    """The command line of ``leveret parked list``."""

    limit: Limit = None
    group_by: Annotated[
        list[GroupBy] | None, typer.Option(help="Count by this instead; may be repeated.")
    ] = None
    as_json: AsJson = False


def register(app: typer.Typer) -> None:
    """Add the commands to *app*."""
    app.command(
        "list",
        epilog=examples(
            "leveret parked list --tenant acme --since 2h",
            "leveret parked list --group-by tenant --group-by status",
            "leveret parked list --reason exhausted --type 'order.*' --json",
        ),
    )(takes(List)(list_))
    app.command("stats", epilog=examples("leveret parked stats", "leveret parked stats --json"))(stats)


def list_(options: List) -> None:
    """Print the parked entries, oldest first, or count them, from the store's index: no entry is touched."""
    with errors_in_one_line():
        found = parked_index().listed(options.filter())
    rows = found.rows[: options.limit]
    empty = "nothing is parked" if found.chosen == Filter() else "nothing is parked that passes the filters"
    if options.group_by:
        columns = [*(key.value for key in options.group_by), "count", "oldest", "newest"]
        groups = grouped(map(row_as_cells, rows), options.group_by)
        print_rows(columns, groups, as_json=options.as_json, empty=empty)
        return
    shown = [row_as_dict(row) if options.as_json else row_as_cells(row) for row in rows]
    print_rows(COLUMNS, shown, as_json=options.as_json, empty=empty)


def stats(as_json: AsJson = False) -> None:
    """Print how many entries are parked, since when, and for whom, from the store's index."""
    with errors_in_one_line():
        fields = parked_index().stats()
    if as_json:
        print_json(fields)
    else:
        print_fields(fields)
