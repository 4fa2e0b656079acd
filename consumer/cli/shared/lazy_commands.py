"""List commands with their help; each one's module is imported only when it is called.

Data flow: name -> module -> its ``register(app)`` or ``app`` -> the command. So ``leveret --help`` imports
none of the libraries that commands need, and a command imports only its own.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, MutableMapping
from copy import copy
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_group


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """One command or group of commands."""

    #: Module in the package of its group; it has ``register(app)`` for commands, or ``app`` for a group.
    module: str
    help: str  #: first paragraph of the command's own help, as the help of its group shows it
    works_remotely: bool = False  #: whether it can work over ``--server``; a group may refuse some commands


COMMANDS: Mapping[str, LazyCommand] = {
    "run": LazyCommand("run", "Deliver events until SIGTERM; then drain and exit 0."),
    "publish": LazyCommand(
        "tools.publish", "Publish events, each confirmed by the broker, and print their ids."
    ),
    "listen": LazyCommand(
        "tools.listen", "Receive webhooks, verify them, and print one line for each; Ctrl-C ends it."
    ),
    "status": LazyCommand(
        "status",
        "Show what the daemon does now: rates, waiting, breakers, parked. Exit 1 unless it is ready.",
    ),
    "doctor": LazyCommand(
        "doctor",
        "Check everything around the daemon: one line each, with the remedy. Exit 1 if one is a fault.",
    ),
    "trace": LazyCommand(
        "history.trace",
        "Show what happened to an event: each attempt, its answer, and why a subscription did not get it.",
        works_remotely=True,
    ),
    "tail": LazyCommand(
        "history.tail", "Follow attempts and ends of deliveries live; Ctrl-C ends it with exit code 0."
    ),
    "pause": LazyCommand(
        "pause",
        "Send nothing until resume; new deliveries wait on the ladder. Without a scope: list the pauses.",
        works_remotely=True,
    ),
    "resume": LazyCommand(
        "pause", "Lift the pause of this scope, and list the pauses that remain.", works_remotely=True
    ),
    "verify": LazyCommand(
        "tools.verify",
        "Check a captured webhook: the matching signature, its age, or the exact fault. Exit 0 or 1.",
    ),
    "alerts": LazyCommand(
        "tools.alerts",
        "Print the alert and recording rules for Prometheus, with your job names and thresholds.",
    ),
    "serve": LazyCommand(
        "api.serve",
        "Serve the HTTP API and the pages at `[api] listen` until SIGTERM; a request needs a token.",
    ),
    "tokens": LazyCommand("api.tokens", "Tokens of the HTTP API."),
    "audit": LazyCommand(
        "api.audit",
        "Print who changed which object, with the values before and after, newest first; no secrets.",
    ),
    "subscriptions": LazyCommand("subscriptions", "Who gets which events.", works_remotely=True),
    "policy": LazyCommand("policy", "Retry policies: when a delivery is tried again."),
    "breaker": LazyCommand("breaker", "Breakers of endpoints.", works_remotely=True),
    "parked": LazyCommand("parked", "Deliveries and events that were given up.", works_remotely=True),
    "jobs": LazyCommand("jobs", "Replay jobs, which a worker works off.", works_remotely=True),
    "waiting": LazyCommand("waiting", "Deliveries that wait for their next attempt.", works_remotely=True),
    "config": LazyCommand("config", "The effective settings."),
    "store": LazyCommand("store", "The store, and the keys that encrypt the secrets in it."),
    "topology": LazyCommand("topology", "Exchanges, queues and bindings on the broker."),
    "broker": LazyCommand("broker", "The private RabbitMQ node, used when no AMQP URL is set."),
}


class _ImportedCommands(MutableMapping[str, Any]):
    """Commands by name; each is imported at its first look-up."""

    def __init__(self, package: str, known: Mapping[str, LazyCommand]) -> None:
        self._package = package
        self._known = known
        self._imported: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._imported:
            self._imported[name] = _import_command(name, f"{self._package}.{self._known[name].module}")
        return self._imported[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._imported[name] = command

    def __delitem__(self, name: str) -> None:
        del self._imported[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._known, *self._imported]))

    def __len__(self) -> int:
        return len(list(iter(self)))


def _import_command(name: str, module_name: str) -> Any:
    """Import the command *name* from its module.

    An import makes many objects and little garbage: the collector's passes would take a tenth of its time.
    """
    gc.disable()
    try:
        module = import_module(module_name)
    finally:
        gc.enable()
    app = typer.Typer(add_completion=False)
    if hasattr(module, "register"):
        module.register(app)
    else:
        app.add_typer(module.app, name=name)
    return get_group(app).commands[name]


class LazyGroup(TyperGroup):
    """A group of commands that are imported at their first use. A subclass names them."""

    package: ClassVar[str]
    known: ClassVar[Mapping[str, LazyCommand]]  #: by name, in the order of the help

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _ImportedCommands(self.package, self.known)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in their order."""
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show the help of each command without importing its module."""
        shown = copy(self)
        shown.commands = {
            name: TyperGroup(name=name, help=command.help) for name, command in self.known.items()
        }
        TyperGroup.format_help(shown, ctx, formatter)


class LazyCommands(LazyGroup):
    """The group of all top-level commands."""

    package = "consumer.cli"
    known = COMMANDS
