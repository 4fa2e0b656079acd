"""``leveret config show | check``: print the effective settings and their sources, or their faults.

Data flow: defaults, leveret.toml, LEVERET_* -> load -> rows with secrets masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import typer
from pydantic import BaseModel

from consumer.cli.shared.options import examples
from consumer.cli.shared.output import AsJson, errors_in_one_line, print_json, print_rows, warn
from consumer.cli.subscriptions.shared import build, read_entries
from consumer.core import schema
from consumer.core.errors import ConfigError, LeveretError
from consumer.settings import Loaded, Settings, load

app = typer.Typer(help="The effective settings.", no_args_is_help=True)

_BETWEEN_URLS = re.compile(r"\s*,\s*(?=[a-z]+s?://)|\s+")
_PASSWORD = re.compile(r"(?<=://)([^:@/]*):.*@")  # to the last @, as a password may contain one
_QUERY = re.compile(r"\?.*")


@app.command(epilog=examples("leveret config show", "leveret config show --json"))
def show(as_json: AsJson = False) -> None:
    """Print every setting with its value and its source; passwords are masked."""
    with errors_in_one_line():
        loaded = load()
    print_rows(("setting", "source", "value"), list(_rows(loaded)), as_json=as_json)


@app.command(epilog=examples("leveret config check"))
def check(as_json: AsJson = False) -> None:
    """Check the settings. Exit 0 if they are usable, or 1 with one line per problem.

    The command names each stored subscription whose retry policy is missing from the settings.
    """
    with errors_in_one_line():
        loaded = load()
        urls = loaded.settings.amqp_urls()
        _demand_policies(loaded.settings)
    broker = f"{len(urls)} AMQP URL(s)" if urls else "the private broker"
    if as_json:
        print_json({"ok": True, "file": str(loaded.file) if loaded.file else None, "amqp_urls": len(urls)})
        return
    typer.echo(f"settings are usable; file: {loaded.file or 'none'}; broker: {broker}")


def _demand_policies(settings: Settings) -> None:
    """Check that the settings contain the policy of each subscription; warn only if the store is away.

    Raises:
        ConfigError: policies are missing; one line per subscription.
    """
    rules, faults = settings.subscription_rules(), []
    try:
        entries = read_entries(settings)
    except (LeveretError, OSError) as error:
        warn(f"the retry policies of subscriptions were not checked: {error}")
        return
    for entry in entries:
        try:
            build(entry, rules)
        except ConfigError as error:
            faults.append(f"{error}; put it back, or apply the subscription with another first")
    if faults:
        raise ConfigError("\n".join(faults))


def _rows(loaded: Loaded) -> Iterable[dict[str, object]]:
    dump = loaded.settings.model_dump(mode="json")
    for path, field in schema.leaves(Settings):
        key = schema.dotted(path)
        value = _value_at(loaded.settings, path) if schema.is_secret(field) else _dumped_at(dump, path)
        yield {"setting": key, "value": value, "source": loaded.origin(key)}


def _dumped_at(dump: object, path: tuple[str, ...]) -> object:
    for part in path:
        dump = dump[part] if isinstance(dump, dict) else None
    return dump


def _value_at(settings: BaseModel, path: tuple[str, ...]) -> object:
    value: object = settings
    for part in path:
        value = getattr(value, part)
    secret = getattr(value, "get_secret_value", None)
    if secret is None:
        return value
    text = secret()
    return mask_url(text) if "://" in text else "***"


def mask_url(text: str) -> str:
    """Return a URL, or several, with each password and query replaced by ``***``."""
    urls = _BETWEEN_URLS.split(text.strip())
    return " ".join(_QUERY.sub("?***", _PASSWORD.sub(r"\1:***@", url)) for url in urls)
