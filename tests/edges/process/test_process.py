"""The surroundings of a process: closed streams, other encodings, no core dump (fault 93)."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

from tests.support.data import ROOT

REDIRECTS = ["<&-", ">&-", "2>&-"]
CLOSED = [" ".join(some) for n in (1, 2, 3) for some in itertools.combinations(REDIRECTS, n)]


@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize("command", ["--version", "policy list", "nonsense"])
def test_closed_streams_end_in_no_traceback(closed: str, command: str) -> None:
    """Fault 93: each command exits as with open streams, without a traceback."""
    line = f"exec {sys.executable} -m consumer {command} {closed}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, cwd=ROOT, check=False)

    assert done.returncode == (2 if command == "nonsense" else 0)
    assert "Traceback" not in done.stderr + done.stdout
    assert "Exception ignored" not in done.stderr


def test_closed_streams_lead_nowhere_else() -> None:
    """A file that is opened later gets none of their numbers: printed text would end up in it."""
    script = (
        "from consumer.edges.process.startup import open_standard_streams as f; f(); import os;"
        "opened = os.open('/dev/null', os.O_RDONLY); os._exit(opened)"
    )
    line = f'exec {sys.executable} -c "{script}" <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", line], cwd=ROOT, check=False)

    assert done.returncode >= 3


@pytest.mark.parametrize(
    ("env", "shown"),
    [
        ({"PYTHONIOENCODING": "latin-1"}, b"m\xfcll\\u20ac"),
        ({"PYTHONIOENCODING": "ascii"}, "m\u00fcll\u20ac".encode()),  # typer takes ASCII for a mistake
        ({"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, b"m\\udcc3\\udcbcll"),
    ],
)
def test_any_text_is_printed_in_any_encoding(env: dict[str, str], shown: bytes) -> None:
    """A character that the encoding lacks is shown as an escape, by typer and by print alike."""
    script = (
        "import sys; from consumer.edges.process.startup import open_standard_streams as f; f();"
        "print(sys.argv[-1]); from consumer.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "policy", "show", "m\u00fcll\u20ac"],
        capture_output=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)} | env,
        cwd=ROOT,
        check=False,
    )

    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert shown in done.stderr


def test_no_core_is_dumped() -> None:
    """Neither to a file nor to a program: memory holds secrets."""
    script = (
        "from consumer.edges.process.startup import forbid_core_dumps as f; f(); import ctypes, resource;"
        "print(resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )

    assert done.stdout == "(0, 0) 0\n"
