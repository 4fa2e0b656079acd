"""Log lines: JSON for machines, colours for people, and no stranger's text can forge either."""

from __future__ import annotations

import io
import json
import logging
import sys
import warnings
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Literal

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.edges.process import logs

HOSTILE = 'ok\n\x1b[31m{"event":"forged"}\x1b]0;title\x07\r\u2028\u202e'
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Leave the process-wide set-up of logging as it was."""
    root, hook = logging.getLogger(), sys.excepthook
    before = (root.handlers[:], root.level, {n: logging.getLogger(n).level for n in NAMES})
    yield
    structlog.reset_defaults()
    logging.captureWarnings(capture=False)
    sys.excepthook = hook
    root.handlers[:], root.level = before[0], before[1]
    for name, level in before[2].items():
        logging.getLogger(name).setLevel(level)


NAMES = ("asyncio", "aiormq", "aio_pika")


class Stream(io.TextIOWrapper):
    """A stream like stderr, to a terminal or not."""

    def __init__(self, *, tty: bool = False) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True)
        self._tty = tty

    def isatty(self) -> bool:
        """Whether a person reads it."""
        return self._tty

    def text(self) -> str:
        """Return the written text."""
        assert logs.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode()

    def lines(self) -> list[dict[str, Any]]:
        """Return the written lines, parsed."""
        return [json.loads(line) for line in self.text().split("\n") if line]


Form = Literal["auto", "json", "console"]


def configured(level: str = "info", form: Form = "json", *, tty: bool = False) -> tuple[Stream, Any]:
    """Set logging up on a fresh stream."""
    stream = Stream(tty=tty)
    logging.getLogger().handlers.clear()  # the test runner's own would count as a set-up to be kept
    logs.configure(level, form, stream)
    return stream, structlog.get_logger()


@pytest.mark.parametrize(
    ("form", "tty", "may_share"),
    [
        ("auto", True, True),
        ("console", True, True),
        ("json", True, False),
        ("auto", False, False),
        ("console", False, False),
    ],
)
def test_another_process_writes_only_to_a_log_for_people(form: Form, tty: bool, may_share: bool) -> None:
    """A JSON log at a terminal contains only JSON too, so the lines of a child pass through this process."""
    stream, _ = configured(form=form, tty=tty)

    assert logs.may_share_stream() is may_share
    logs.pass_on(b"no JSON")
    assert stream.text().strip().startswith("{") is (form == "json" or (form == "auto" and not tty))


def test_a_line_is_one_json_object() -> None:
    """Event name, level, time in UTC and the fields (S0-9, S1-17)."""
    stream, log = configured()

    log.info("delivery.attempted", attempt=1, duration_s=0.25, status=None, retryable=True)

    [line] = stream.lines()
    assert datetime.fromisoformat(line.pop("timestamp")).utcoffset() is not None
    assert line == {
        "event": "delivery.attempted",
        "level": "info",
        "attempt": 1,
        "duration_s": 0.25,
        "status": None,
        "retryable": True,
    }


def test_time_level_event_tenant_and_subscription_come_first() -> None:
    """Whatever the order in which a step names its fields."""
    stream, log = configured()

    log.info(
        "breaker.changed", subscription_id="sub_1", subscription="acme/shop", after="open", tenant="acme"
    )

    [line] = stream.lines()
    assert list(line) == [
        *("timestamp", "level", "event", "tenant", "subscription"),
        *("subscription_id", "after"),
    ]


@settings(max_examples=60)
@given(st.dictionaries(st.from_regex(r"[a-z_]{3,9}_x", fullmatch=True), ANY_TEXT, max_size=4))
def test_any_text_stays_inside_its_line(fields: dict[str, str]) -> None:
    """Line breaks, escapes, half surrogate pairs: always one line of valid JSON (fault 51)."""
    stream, log = configured()

    log.warning("publish.failed", **fields)

    assert stream.text().count("\n") == 1
    [line] = stream.lines()
    for name, text in fields.items():
        assert line[name] == text


@settings(max_examples=60)
@given(ANY_TEXT, ANY_TEXT, st.dictionaries(ANY_TEXT, ANY_TEXT | st.integers() | st.none(), max_size=4))
def test_a_prepared_line_is_like_any_other(tenant: str, name: str, others: dict[str, object]) -> None:
    """The lines of each request are prepared for speed: the same text in the same order (S0-9, fault 51)."""
    others = {f"x_{key}": value for key, value in others.items()}
    fields = {"tenant": tenant, "subscription": name, **others} if tenant else {}
    stream, log = configured()

    log.bind().prepared("info", "delivery.attempted")(fields)
    log.info("delivery.attempted", **fields)

    assert stream.text().count("\n") == 2
    prepared, usual = ([*line.items()] for line in stream.lines())
    assert prepared[1:] == usual[1:]
    for key, value in (prepared[0], usual[0]):
        assert key == "timestamp"
        assert datetime.fromisoformat(value).utcoffset() == timedelta(0)


@pytest.mark.parametrize("tty", [True, False])
def test_a_prepared_line_is_short_for_people_too(tty: bool) -> None:
    """It differs from any other line only in its time."""
    stream, log = configured(form="console", tty=tty)
    fields = {"tenant": "acme", "subscription": "acme/shop", "error": HOSTILE}

    log.bind().prepared("warning", "delivery.attempted")(fields)
    log.warning("delivery.attempted", **fields)

    prepared, usual = (line.partition("Z")[2] for line in stream.text().splitlines())
    assert "delivery.attempted" in prepared
    assert prepared == usual


def test_a_prepared_line_has_the_fields_that_its_logger_is_bound_to() -> None:
    """As any other line of that logger."""
    stream, log = configured()

    bound = log.bind(worker="w1", level="of its own")
    bound.prepared("info", "delivery.attempted")({"tenant": "acme"})
    bound.info("delivery.attempted", tenant="acme")

    prepared, usual = ([*line.items()][1:] for line in stream.lines())
    assert ("worker", "w1") in prepared
    assert prepared == usual


@pytest.mark.parametrize("value", [b"\xff", object(), {1: "a"}, float("nan"), 2**70, [b"x"], {"a": {"b"}}])
def test_any_value_can_be_said(value: object) -> None:
    """A field of any type is written somehow; logging never raises."""
    stream, log = configured()

    log.info("daemon.started", odd=value)

    assert len(stream.lines()) == 1


def test_an_error_has_its_traceback_in_the_line() -> None:
    """As one field, so that a machine keeps it together."""
    stream, log = configured()

    log.error("task.failed", task="job", exc_info=RuntimeError("a bug\nof two lines"))

    [line] = stream.lines()
    assert "RuntimeError: a bug" in line["exception"]


@pytest.mark.parametrize(
    ("level", "seen"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_lines_below_the_level_are_left_out(level: str, seen: list[str]) -> None:
    """The setting's four levels."""
    stream, log = configured(level)

    for name in ("debug", "info", "warning", "error"):
        getattr(log, name)("x.y")
        log.bind().prepared(name, "x.z")({"attempt": 1})

    lines = stream.lines()
    assert [line["level"] for line in lines if line["event"] == "x.y"] == seen
    assert [line["level"] for line in lines if line["event"] == "x.z"] == seen
    assert log.is_debugging == ("debug" in seen)  # a reporter makes no fields for lines that are left out


@pytest.mark.parametrize(
    ("form", "tty", "pretty"),
    [("auto", True, True), ("auto", False, False), ("json", True, False), ("console", False, True)],
)
def test_people_get_short_lines_and_machines_json(form: Form, tty: bool, pretty: bool) -> None:
    """By default as the stream is; by setting as wanted. Colours are for terminals."""
    stream, log = configured(form=form, tty=tty)

    log.info("daemon.started", pid=7)

    assert stream.text().startswith("{") is not pretty
    assert ("\x1b[" in stream.text()) is (pretty and tty)


def test_a_terminal_gets_no_escape_of_a_stranger() -> None:
    """Control characters, title changes and line breaks are shown, not done (fault 51)."""
    stream, log = configured(form="console", tty=True)

    log.warning("delivery.attempted", error=HOSTILE, location=HOSTILE)

    text = stream.text()
    assert text.count("\n") == 1
    assert "\x1b]0;" not in text
    assert "\x07" not in text
    assert "\r" not in text
    assert "\u202e" not in text
    assert "\\x1b[31m" in text


def test_a_terminal_gets_no_escape_in_nested_values_either() -> None:
    """Lists and mappings are shown by their repr."""
    stream, log = configured(form="console", tty=True)

    log.info("egress.open", allow=[HOSTILE], more={"k": HOSTILE})

    assert "\x1b]0;" not in stream.text()
    assert stream.text().count("\n") == 1


def test_the_amqp_library_cannot_log_urls_with_passwords() -> None:
    """An error that we report ourselves is not logged twice, and never with a password."""
    stream, _ = configured("debug")

    for name in ("aiormq.connection", "aio_pika.robust_connection"):
        logging.getLogger(name).error("lost amqp://user:secret@broker/")

    assert stream.text() == ""


def test_the_daemon_hears_the_amqp_library_where_the_command_line_had_silenced_it() -> None:
    """`leveret run` starts behind the command line, which turns these loggers off for its short commands."""
    for name in ("aiormq", "aio_pika"):
        logging.getLogger(name).propagate = False
    stream, _ = configured()

    logging.getLogger("aiormq.connection").critical("broken beyond repair")

    assert "broken beyond repair" in stream.text()


def test_other_libraries_errors_are_seen() -> None:
    """Fault 93: as JSON too, so that nothing in the log is anything else."""
    stream, _ = configured()

    logging.getLogger("asyncio").error("Task exception was never retrieved", exc_info=RuntimeError("a bug"))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=False)
        logging.captureWarnings(capture=True)
        warnings.warn("a library is old", DeprecationWarning, stacklevel=1)
    sys.excepthook(ValueError, ValueError("nobody caught it"), None)

    library, warning, crash = stream.lines()
    assert (library["event"], library["logger"]) == ("library.logged", "asyncio")
    assert library["detail"] == "Task exception was never retrieved"
    assert "RuntimeError: a bug" in library["exception"]
    assert "a library is old" in warning["detail"]
    assert (crash["event"], crash["level"]) == ("daemon.crashed", "error")
    assert "nobody caught it" in crash["exception"]


def test_a_line_of_a_child_is_an_object_in_a_json_log() -> None:
    """Its own lines stay as they are; other text is escaped, cut, and cannot forge a line."""
    stream, _ = configured()

    for line in (b'{"event": "api.started"}', b"Traceback\xff\x1b[2J", b'["list"]', b"{" * 100_000):
        logs.pass_on(line)

    own, trace, array, long = stream.lines()
    assert own == {"event": "api.started"}
    assert (trace["event"], trace["logger"], trace["detail"]) == (
        "library.logged",
        "api",
        "Traceback\\xff\x1b[2J",
    )
    assert array["detail"] == '["list"]'
    assert long["detail"] == "{" * logs.PASSED_BYTES
