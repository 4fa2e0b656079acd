"""Write the generated parts of the documents: ``python -m docs.generate``.

Data flow: code (settings, metrics, policies, command line ...) -> text of a block -> the file between
``<!-- generated: NAME -->`` and ``<!-- end -->``. ``--check`` writes nothing; it
exits with 1 if a text is stale.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

import typer
from prometheus_client import CollectorRegistry
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from consumer.cli import app
from consumer.core import schema
from consumer.core.changes.json_schema import subscriptions_schema
from consumer.core.endpoint.breaker import BREAKERS
from consumer.core.endpoint.trouble import CAUSES
from consumer.core.model import OutcomeKind, ParkReason
from consumer.core.retry.outcomes import classification_table, kind_table
from consumer.core.retry.policy import POLICIES, max_age_s, planned_delays_s, total_delay_s
from consumer.core.subscription.access_entry import AuthFields, BasicFields, OAuth2Fields, TlsFields
from consumer.core.subscription.entry import SubscriptionEntry
from consumer.core.subscription.policy import BreakerFields, RetryChoice
from consumer.core.text.durations import format_duration
from consumer.edges.serve.runbook import RUNBOOK_FILE
from consumer.settings import Settings, SourceSettings
from consumer.web.app import create_app
from consumer.web.context import open_context
from docs.alert_tables import alerts_table, recordings_table, thresholds_table
from docs.markdown import one_line, table
from docs.runbook_page import runbook_html
from metrics.series import Series
from topology.export import mermaid
from topology.ladder import RUNGS_S
from topology.permissions import permissions
from topology.plan import TopologySpec, build_plan

ROOT = Path(__file__).parents[1]
SCHEMA = ROOT / "docs" / "subscriptions.schema.json"
OPENAPI = ROOT / "docs" / "openapi.json"
FILES = (
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "reference").glob("*.md")),
)

_BLOCK = re.compile(r"(<!-- generated: (?P<name>[^>]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
_LABEL_NOTE = re.compile(
    r"# (?P<label>\w+): (?P<values>.+)\n(?:\s+text = .+\n)?\s+self\.\w+ = self\.\w+\(\s*\"(?P<metric>\w+)\""
)
_ENUMS: Mapping[str, type[StrEnum]] = {
    f"consumer.core.model.{e.__name__}": e for e in (OutcomeKind, ParkReason)
}


# settings and subscriptions


def settings_tables() -> str:
    """Return every setting by section: key, allowed values, default, meaning."""
    sections: dict[str, list[Sequence[str]]] = {}
    headings: dict[str, str] = {}
    schema.describe_fields(Settings)
    for path, field in schema.leaves(Settings):
        section = ".".join(path[:-1])
        sections.setdefault(section, []).append(_field_row(path[-1], field))
    for name, field in Settings.model_fields.items():
        headings[name] = field.description or ""
    parts = []
    for section, rows in sections.items():
        title = f"### [{section}]" if section else "### Top level"
        note = headings.get(section, "")
        parts.append(f"{title}\n\n" + (f"{note}\n\n" if note else "") + table(_FIELD_HEAD, rows))
    note = one_line(inspect.getdoc(SourceSettings) or "")
    parts.append(f"### [[sources]]\n\n{note}\n\n" + _model_table(SourceSettings))
    return "\n".join(parts)


_FIELD_HEAD = ("key", "holds", "default", "meaning")


def _field_row(name: str, field: FieldInfo) -> Sequence[str]:
    return (f"`{name}`", schema.accepted_values(field, name), _default(field), field.description or "")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "absent"
    if isinstance(value, BaseModel) or value in ((), {}):
        return "empty"
    if value == RUNGS_S:
        return "the 37 rungs"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:.0f}`" if isinstance(value, float) and value >= 1e6 else f"`{value}`"


def _model_table(model: type[BaseModel]) -> str:
    schema.describe_fields(model)
    return table(_FIELD_HEAD, [_field_row(name, field) for name, field in model.model_fields.items()])


def subscription_tables() -> str:
    """Return the fields of one entry of a subscriptions file."""
    return (
        _model_table(SubscriptionEntry)
        + "\nFields of `retry`:\n\n"
        + _model_table(RetryChoice)
        + "\nFields of `breaker`:\n\n"
        + _model_table(BreakerFields)
        + "\nFields of `auth`:\n\n"
        + _model_table(AuthFields)
        + "\nFields of `auth.basic`:\n\n"
        + _model_table(BasicFields)
        + "\nFields of `auth.oauth2`:\n\n"
        + _model_table(OAuth2Fields)
        + "\nFields of `tls`:\n\n"
        + _model_table(TlsFields)
    )


# metrics


INFO_LABELS: Mapping[str, Sequence[str]] = {"leveret_build": ("version", "python")}
"""Labels that are known only once a worker runs."""


def metrics_table() -> str:
    """Return every series of a worker."""
    registry = CollectorRegistry()
    Series(registry)
    values = {
        (note["metric"], note["label"]): " | ".join(_ENUMS.get(note["values"], [note["values"]]))
        for note in _LABEL_NOTE.finditer(inspect.getsource(Series))
    }
    values["subscription_trouble", "cause"] = " | ".join(sorted(CAUSES))
    rows = []
    for collector in registry._collector_to_names:
        metric = next(iter(collector.collect()), None)
        if metric is None:  # a collector without samples of its own
            continue
        short = metric.name.removeprefix("leveret_")
        labels = [
            f"`{label}`: {values[short, label]}" if (short, label) in values else f"`{label}`"
            for label in getattr(collector, "_labelnames", ()) or INFO_LABELS.get(metric.name, ())
        ]
        name = metric.name + {"counter": "_total", "info": "_info"}.get(metric.type, "")
        rows.append((f"`{name}`", metric.type, "; ".join(labels), metric.documentation))
    return table(("name", "type", "labels", "meaning"), rows)


# log


def log_table() -> str:
    """Return every event name of the log, with its level and the module that logs it."""
    found: dict[tuple[str, str], str] = {}
    for path in sorted((ROOT / "consumer").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                for name, level in _logged(call.func.attr, call.args):
                    found.setdefault((name, level), str(path.relative_to(ROOT)))
    return table(
        ("event", "level", "by"), [(f"`{n}`", level, f"`{by}`") for (n, level), by in sorted(found.items())]
    )


def _logged(method: str, arguments: Sequence[ast.expr]) -> Iterator[tuple[str, str]]:
    """Yield the event and the level of a call of *method*, if it logs one."""
    words = [str(each.value) if isinstance(each, ast.Constant) else "" for each in arguments]
    if method == "_line":
        level, name = words
        yield name, level
    elif method in _LEVELS and words and re.fullmatch(r"[a-z]+\.[a-z_]+", words[0]):
        yield words[0], _LEVELS[method]


#: Level by method that logs.
_LEVELS = {level: level for level in ("debug", "info", "warning", "error")} | {
    "said": "info",
    "warned": "warning",
    "faulted": "warning",
}


# command line


def cli_tables() -> str:
    """Return every command with its arguments and options."""
    rows = []
    for names, command in _commands(typer.main.get_command(app), ("leveret",)):
        options = []
        for parameter in sorted(command.params, key=lambda each: each.param_type_name != "argument"):
            if parameter.name == "help" or getattr(parameter, "hidden", False):
                continue
            if parameter.param_type_name == "argument":
                options.append(f"`{(parameter.metavar or parameter.name or '').upper()}`")
            else:
                options.append(" / ".join(f"`{o}`" for o in (*parameter.opts, *parameter.secondary_opts)))
        rows.append((f"`{' '.join(names)}`", (command.help or "").strip(), ", ".join(options)))
    return table(("command", "does", "takes"), rows)


def _commands(
    command: object, names: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], typer.core.TyperCommand]]:
    if isinstance(command, typer.core.TyperCommand):
        yield names, command
    inner: Mapping[str, object] = getattr(command, "commands", {})
    for name, each in inner.items():
        yield from _commands(each, (*names, name))


# decisions of the core


def classification() -> str:
    """Return the meaning of each kind of answer."""
    rows = [(what, rule.value, signal.value, why) for what, rule, signal, why in classification_table()]
    return table(("answer", "we", "the breaker learns", "reason"), rows)


def outcomes() -> str:
    """Return for each kind of outcome its meaning, the verdict, and whether the breaker counts it."""
    rows = [(f"`{kind}`", what, do, counts) for kind, what, do, counts in kind_table()]
    return table(("kind", "means", "we", "counts for the breaker"), rows)


def policies() -> str:
    """Return every named retry policy with its waits."""
    rows = []
    for name, policy in POLICIES.items():
        waits = ", ".join(format_duration(wait) for wait in planned_delays_s(policy))
        jitter = f"±{policy.jitter_ratio:.0%}" if policy.jitter_ratio else "none"
        age = format_duration(max_age_s(policy))
        rows.append(
            (
                f"`{name}`",
                str(policy.max_attempts),
                waits,
                format_duration(total_delay_s(policy)),
                jitter,
                age,
            )
        )
    return table(("policy", "attempts", "waits between them", "sum", "jitter", "`max_age_s`"), rows)


def breakers() -> str:
    """Return every named breaker."""
    rows = [
        (
            f"`{name}`",
            str(b.failures),
            format_duration(b.cooldown_s),
            format_duration(max(b.cooldown_s, b.cooldown_max_s)),
        )
        for name, b in BREAKERS.items()
    ]
    return table(("breaker", "failures in a row", "cooldown", "longest cooldown"), rows)


# broker


def rungs() -> str:
    """Return the default ladder in one line."""
    return ", ".join(format_duration(rung) for rung in RUNGS_S) + "\n"


def graph() -> str:
    """Return the default topology as a Mermaid graph."""
    return f"```mermaid\n{mermaid(build_plan(TopologySpec()))}```\n"


def permission_patterns() -> str:
    """Return the rights of the broker's user, for the default prefix."""
    lines = []
    for what, declare in (("leveret run", True), ("leveret run --no-declare", False)):
        needed = permissions(TopologySpec(), declare=declare)
        parts = " ".join(f"'{pattern}'" for pattern in (needed.configure, needed.write, needed.read))
        lines.append(f"# {what}\nrabbitmqctl set_permissions -p / leveret {parts}\n")
    return "```sh\n" + "\n".join(lines) + "```\n"


def example(name: str) -> str:
    """Return a file of docs/examples as a code block."""
    kind = {"py": "python", "mjs": "js", "yaml": "yaml", "toml": "toml"}[name.rpartition(".")[2]]
    return f"```{kind}\n{(ROOT / 'docs' / 'examples' / name).read_text()}```\n"


BLOCKS: Mapping[str, Callable[[], str]] = {
    "settings": settings_tables,
    "subscription": subscription_tables,
    "metrics": metrics_table,
    "alerts": alerts_table,
    "recordings": recordings_table,
    "thresholds": thresholds_table,
    "log": log_table,
    "commands": cli_tables,
    "classification": classification,
    "outcomes": outcomes,
    "policies": policies,
    "breakers": breakers,
    "rungs": rungs,
    "topology": graph,
    "permissions": permission_patterns,
}


def block(name: str) -> str:
    """Return the text of the block *name*; ``example FILE`` is a file of docs/examples."""
    kind, _, argument = name.partition(" ")
    return example(argument) if kind == "example" else BLOCKS[name]()


def generated(text: str) -> str:
    """Return *text* with every block generated anew."""
    return _BLOCK.sub(lambda found: f"{found[1]}{block(found['name'])}{found[3]}", text)


def schema_text() -> str:
    """Return the JSON Schema of a subscriptions file, as ``leveret subscriptions schema`` prints it."""
    return json.dumps(subscriptions_schema(POLICIES), indent=2) + "\n"


def openapi_text() -> str:
    """Return the OpenAPI document of the HTTP API, with the default settings."""
    app = create_app(open_context(Settings()))
    return json.dumps(app.openapi(), indent=2) + "\n"


def runbook_text() -> str:
    """Return the runbook as the page that the daemon serves."""
    return runbook_html((ROOT / "docs" / "runbook.md").read_text())


def main(arguments: Sequence[str]) -> int:
    """Write stale texts, or with ``--check`` only name them and return 1 if there are any."""
    texts = {path: generated(path.read_text()) for path in FILES}
    texts |= {SCHEMA: schema_text(), OPENAPI: openapi_text(), RUNBOOK_FILE: runbook_text()}
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
        if "--check" not in arguments:
            path.write_text(texts[path])
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
