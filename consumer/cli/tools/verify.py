"""``leveret verify``: check a captured webhook against a secret.

Data flow: headers and body (files, stdin, options) + secret -> examine -> signatures that match, or faults.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from consumer.cli.shared.complete import subscription_names
from consumer.cli.shared.options import examples, takes
from consumer.cli.shared.output import AsJson, errors_in_one_line, fail, print_json
from consumer.cli.shared.secrets import STDIN, read_secret
from consumer.cli.subscriptions.shared import read_entries
from consumer.core.changes.steps import Address, find, full_name, locked_text
from consumer.core.errors import ConfigError
from consumer.core.text.durations import format_duration
from consumer.core.text.printable import printable
from consumer.core.webhook.capture import parse_headers, parse_request
from consumer.core.webhook.signing import TOLERANCE_S, VerifyingKey, parse_verifying_key
from consumer.core.webhook.verification import Finding, examine
from consumer.settings import load_settings, variable

_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """The command line of ``leveret verify``."""

    request: Annotated[
        str | None, typer.Option(metavar="FILE", help="Whole captured request: headers, blank line, body.")
    ] = None
    headers: Annotated[
        str | None, typer.Option(metavar="FILE", help="Headers, as lines or as a JSON object.")
    ] = None
    header: Annotated[
        list[str] | None, typer.Option(metavar="'NAME: VALUE'", help="One header; may be repeated.")
    ] = None
    body: Annotated[str, typer.Option(metavar="FILE", help="Body, the raw bytes; - is stdin.")] = STDIN
    secret_file: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="File with a secret; - is stdin; may be repeated."),
    ] = None
    secret_env: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="Environment variable that holds the secret.")
    ] = None
    subscription: Annotated[
        str | None,
        typer.Option(help="Take the secrets of this subscription.", autocompletion=subscription_names),
    ] = None
    tolerance_s: Annotated[float, typer.Option(min=0, help="How far the timestamp may be off.")] = TOLERANCE_S
    any_age: Annotated[bool, typer.Option("--any-age", help="Accept any timestamp.")] = False
    as_json: AsJson = False

    def check(self) -> None:
        """Check that the options fit together.

        Raises:
            BadParameter: stdin is read twice, or the secret or the headers are missing or given twice.
        """
        secrets = [*(self.secret_file or ()), *filter(None, (self.secret_env, self.subscription))]
        if not secrets:
            raise typer.BadParameter("give the secret by --secret-file, --secret-env or --subscription")
        heads = [self.request, self.headers, *(["x"] if self.header else [])]
        if not any(heads) or (self.request and any(heads[1:])):
            raise typer.BadParameter("give the headers by --request, or by --headers and --header")
        files = [self.request or self.body, *filter(None, (self.headers,)), *(self.secret_file or ())]
        if files.count(STDIN) > 1:
            raise typer.BadParameter("stdin can be only one of body, headers and secret; give files")


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    app.command(
        "verify",
        epilog=examples(
            "leveret verify --request captured.http --secret-file secret",
            "leveret verify --headers headers.txt --body body.json --subscription acme/shop --any-age",
            "leveret verify --header 'webhook-id: msg_1' --header 'webhook-timestamp: 1700000000'"
            " --header 'webhook-signature: v1,K5oZ=' --body body.json --secret-env WEBHOOK_SECRET",
        ),
    )(takes(Verify)(verify))


def verify(options: Verify) -> None:
    """Check a captured webhook: the matching signature, its age, or the exact fault. Exit 0 or 1.

    The command line never takes a secret itself, as other users of the machine could read it there.
    """
    options.check()
    with errors_in_one_line():
        keys = _keys(options)
        headers, body = _captured(options)
        finding = examine(keys, headers, body, time.time(), None if options.any_age else options.tolerance_s)
    if options.as_json:
        print_json(_row(finding))
    else:
        _print(finding, len(keys))
    if finding.fault is not None:
        fail(f"does not verify: {finding.fault}")


def _keys(options: Verify) -> Sequence[VerifyingKey]:
    keys: list[VerifyingKey] = []
    for file in options.secret_file or ():
        keys.append(parse_verifying_key(read_secret(file, parse_verifying_key)))
    if options.secret_env is not None:
        text = variable(options.secret_env)
        if not text:
            raise ConfigError(
                f"the variable {options.secret_env} is not set; export it or give --secret-file"
            )
        keys.append(parse_verifying_key(text))
    if options.subscription is not None:
        entry = find(read_entries(load_settings()), Address(text=options.subscription))
        if entry.locked is not None:
            raise ConfigError(f"{full_name(entry)}: {locked_text(entry)}")
        keys += entry.signing_keys()
    return keys


def _captured(options: Verify) -> tuple[Mapping[str, str], bytes]:
    if options.request is not None:
        return _parse_naming(options.request, parse_request, _bytes(options.request))
    lines = "\n".join(options.header or ())
    if options.headers is not None:
        text = _bytes(options.headers).decode("latin-1")
        headers = dict(_parse_naming(options.headers, parse_headers, text))
        return headers | dict(parse_headers(lines) if lines else {}), _bytes(options.body)
    return _parse_naming("--header", parse_headers, lines), _bytes(options.body)


def _parse_naming(source: str, parse: Callable[[_In], _Out], given: _In) -> _Out:
    """Parse *given*; an error names its source."""
    try:
        return parse(given)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None


def _bytes(file: str) -> bytes:
    return sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()


def _row(finding: Finding) -> dict[str, object]:
    return {
        "ok": finding.fault is None,
        "event_id": finding.event_id,
        "timestamp": finding.timestamp,
        "age_s": round(finding.age_s, 3),
        "matches": [match._asdict() for match in finding.matches],
        "fault": finding.fault,
    }


def _print(finding: Finding, keys: int) -> None:
    age = format_duration(round(abs(finding.age_s)))
    when = f"{age} old" if finding.age_s >= 0 else f"{age} in the future"
    typer.echo(f"webhook {printable(finding.event_id)}, {when}")
    for match in finding.matches:
        secret = "the secret" if keys == 1 else f"secret {match.key} of {keys}"
        typer.echo(f"signature {match.signature} ({match.version}) matches {secret}")
    if finding.fault is None:
        typer.echo("verified")
