"""The first words of the command line: what each does, and its module, imported only when it is called.

Data flow: word -> module -> ``register(app)`` or ``app`` of it -> the command. So ``leveret --help`` waits
for none of the libraries that the commands need, and a command only for its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from copy import copy
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group


@dataclass(frozen=True, slots=True)
class Word:
    """One first word."""

    module: str  #: in ``consumer.cli``; with ``register(app)`` for commands, or ``app`` for a group of them
    help: str  #: what ``leveret --help`` says of it: the first paragraph of its own help


WORDS: Mapping[str, Word] = {
    "run": Word("run", "Deliver events until SIGTERM; then drain and exit 0."),
    "publish": Word("tools.publish", "Publish events, each confirmed by the broker, and print their ids."),
    "listen": Word(
        "tools.listen", "Receive webhooks, verify them, and print one line for each; Ctrl-C ends it."
    ),
    "status": Word(
        "status",
        "Show what the daemon does now: rates, what waits, breakers, parked. Exit 1 unless it is ready.",
    ),
    "pause": Word(
        "pause",
        "Send nothing until resume; what comes waits on the ladder. Without a scope: list what is paused.",
    ),
    "resume": Word("pause", "Lift the pause of this scope, and list what is paused still."),
    "verify": Word(
        "tools.verify",
        "Check a captured webhook: which signature fits, how old it is, or exactly what is wrong."
        " Exit 0 or 1.",
    ),
    "subscriptions": Word("subscriptions", "Who gets which events."),
    "policy": Word("policy", "Retry policies: when a delivery is tried again."),
    "breaker": Word("breaker", "Breakers of endpoints."),
    "parked": Word("parked", "Deliveries and events that were given up."),
    "waiting": Word("waiting", "Deliveries that wait for their next attempt."),
    "config": Word("config", "The effective settings."),
    "store": Word("store", "The store, and the keys that encrypt the secrets in it."),
    "topology": Word("topology", "Exchanges, queues and bindings on the broker."),
    "broker": Word("broker", "The private RabbitMQ node, used when no AMQP URL is set."),
}


class _Commands(MutableMapping[str, Any]):
    """Every command by its first word, made when it is asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, word: str) -> Any:
        if word not in self._made:
            self._made[word] = _make(word)
        return self._made[word]

    def __setitem__(self, word: str, command: Any) -> None:
        self._made[word] = command

    def __delitem__(self, word: str) -> None:
        del self._made[word]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*WORDS, *self._made]))

    def __len__(self) -> int:
        return len(list(iter(self)))


def _make(word: str) -> Any:
    """Import the word's module.

    Raises:
        KeyError: there is no such word.
    """
    module = import_module(f"consumer.cli.{WORDS[word].module}")
    app = typer.Typer(add_completion=False)
    if hasattr(module, "register"):
        module.register(app)
    else:
        app.add_typer(module.app, name=word)
    return get_group(app).commands[word]


class Words(TyperGroup):
    """The group of all words."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the words in their order."""
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show what each word does without importing any."""
        shown = copy(self)
        shown.commands = {name: TyperGroup(name=name, help=word.help) for name, word in WORDS.items()}
        TyperGroup.format_help(shown, ctx, formatter)
