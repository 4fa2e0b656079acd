"""The options of a server are checked before anything is sent, and no token is ever printed."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner, Result

from consumer.cli import app
from consumer.cli.shared.lazy_commands import COMMANDS
from tests.support.command_line import Run

TOKEN = "lvt_0123456789ab_" + "a" * 52
URL = "http://127.0.0.1:8090"
LOCAL_ONLY = [name for name, command in COMMANDS.items() if not command.works_remotely]


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """A file with a token that only its owner may read."""
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(f"{TOKEN}\n")
    return file


def answering(status: int, json: object = None, **headers: str) -> httpx2.MockTransport:
    """Return a server that gives every request the same answer."""
    return httpx2.MockTransport(lambda _: httpx2.Response(status, json=json, headers=headers))


def ask(token: Path, transport: httpx2.BaseTransport | None, *words: str, url: str = URL) -> Result:
    """List jobs over a server."""
    given = words or ("jobs", "list")
    return CliRunner().invoke(app, ["--server", url, "--token-file", str(token), *given], obj=transport)


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("leveret.example", "is not a URL"),
        ("ftp://leveret.example", "is not a URL"),
        ("https://leveret.example/?a=1", "is not a URL"),
        ("https://leveret.example:99999", "is not a URL"),
        ("https://me:hush@leveret.example", "contains a login"),
        ("http://leveret.example", "in clear"),
        ("http://10.0.0.7:8090", "in clear"),
    ],
)
def test_an_unsafe_url_is_refused(url: str, fault: str, token: Path, run: Run) -> None:
    """Nothing is sent to it, and a password in it is not printed."""
    done = ask(token, answering(200, {"items": [], "next": None}), url=url)

    assert done.exit_code == 1
    assert fault in done.stderr
    assert "hush" not in done.output


def test_http_to_another_machine_needs_an_explicit_option(token: Path, run: Run) -> None:
    """With it the request is sent."""
    transport = answering(200, {"items": [], "next": None})
    done = ask(token, transport, "--allow-http", "jobs", "list", url="http://leveret.example")

    assert (done.stdout, done.exit_code) == ("there are no jobs\n", 0)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_token_that_others_may_read_is_refused(mode: int, token: Path, run: Run) -> None:
    """The error names the file and the remedy, and not the token."""
    token.chmod(mode)
    done = ask(token, answering(200))

    assert done.exit_code == 1
    assert "chmod 600" in done.stderr
    assert TOKEN not in done.output


@pytest.mark.parametrize("content", ["", "\n", "two words", "t\u00f6ken"])
def test_a_file_without_one_token_is_refused(content: str, token: Path, run: Run) -> None:
    """The content is not printed."""
    token.write_text(content)
    done = ask(token, answering(200))

    assert done.exit_code == 1
    assert "does not contain one token" in done.stderr


def test_a_missing_file_and_a_missing_option_are_faults(tmp_path: Path, run: Run) -> None:
    """Both have one line."""
    missing = ask(tmp_path / "none", answering(200))
    no_option = CliRunner().invoke(app, ["--server", URL, "jobs", "list"])

    assert missing.exit_code == 1
    assert "none: No such file or directory" in missing.stderr
    assert no_option.exit_code == 2
    assert "--token-file" in no_option.output


@pytest.mark.parametrize("name", LOCAL_ONLY)
def test_commands_of_store_and_broker_are_refused(name: str, token: Path, run: Run) -> None:
    """The line names the command and the way out, and nothing is sent."""
    done = ask(token, answering(500), name)

    assert done.exit_code == 2
    assert "cannot work over --server" in " ".join(done.output.replace("│", " ").split())


@pytest.mark.parametrize("words", [("parked", "export"), ("subscriptions", "schema")])
def test_parts_of_groups_are_refused(words: tuple[str, ...], token: Path, run: Run) -> None:
    """The other commands of the group work."""
    assert ask(token, answering(500), *words).exit_code == 2


def test_the_variables_choose_the_server(token: Path, run: Run) -> None:
    """They stand for the options, and are no settings of Leveret."""
    env = {"LEVERET_SERVER": URL, "LEVERET_TOKEN_FILE": str(token)}
    done = CliRunner().invoke(app, ["jobs", "list"], env=env, obj=answering(200, {"items": [], "next": None}))
    local = run("config", "show", TOKEN_FILE=str(token))

    assert done.stdout == "there are no jobs\n"
    assert local.exit_code == 0


def test_a_problem_document_is_one_line_per_fault(token: Path, run: Run) -> None:
    """Each has its field and its remedy, and hostile text is escaped."""
    errors = [
        {"detail": "is not a number", "field": "timeout_s", "remedy": "write one"},
        {"detail": "bad \x1b[2J", "field": None, "remedy": None},
    ]
    done = ask(token, answering(422, {"errors": errors}))

    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        "leveret: timeout_s: is not a number; write one",
        "leveret: bad \\x1b[2J",
    ]


def test_an_answer_of_something_else_is_a_fault(token: Path, run: Run) -> None:
    """A proxy's page is not printed."""
    done = ask(token, httpx2.MockTransport(lambda _: httpx2.Response(502, text="<html>")))

    assert done.stderr == f"leveret: {URL} answered 502; check that the URL is that of `leveret serve`\n"


def test_a_redirect_is_not_followed(token: Path, run: Run) -> None:
    """The token goes to the named server only."""
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(307, headers={"Location": "https://evil.example/"})

    done = ask(token, httpx2.MockTransport(answer))

    assert done.exit_code == 1
    assert [request.url.host for request in seen] == ["127.0.0.1"]


def test_pages_are_followed_and_a_busy_server_is_asked_again(token: Path, run: Run) -> None:
    """Every job of every page is printed, in order."""
    answers = iter(
        [
            httpx2.Response(200, json={"items": [{"id": "job_1"}], "next": "c1"}),
            httpx2.Response(429, headers={"Retry-After": "0"}, json={"errors": []}),
            httpx2.Response(200, json={"items": [{"id": "job_2"}], "next": None}),
        ]
    )
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return next(answers)

    done = ask(token, httpx2.MockTransport(answer), "jobs", "list", "--json")

    assert done.stdout.splitlines() == ['{"id":"job_1"}', '{"id":"job_2"}']
    assert [request.url.params.get("cursor") for request in seen] == [None, "c1", "c1"]
    assert {request.headers["authorization"] for request in seen} == {f"Bearer {TOKEN}"}


def test_a_server_that_is_away_is_named(token: Path, run: Run) -> None:
    """The line has the URL and no token."""
    done = ask(token, None, "jobs", "list", url="http://127.0.0.1:9")

    assert done.exit_code == 1
    assert done.stderr.startswith("leveret: http://127.0.0.1:9: ")
    assert TOKEN not in done.output


def test_a_slow_server_is_given_up(token: Path, run: Run) -> None:
    """The line has the time-out and its option."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ReadTimeout("slow", request=request)

    done = ask(token, httpx2.MockTransport(answer))

    assert "no answer within 60 s" in done.stderr


def test_an_authority_that_is_not_one_is_refused(token: Path, run: Run) -> None:
    """The file has no certificate."""
    done = ask(token, None, "--ca-file", str(token), "jobs", "list", url="https://leveret.example")

    assert done.exit_code == 1
    assert "is not a PEM file" in done.stderr
    assert TOKEN not in done.output
