"""The publishers of the proof ``clients``: small programs of other languages, built into ``build/clients``.

Each is a folder below ``bench/hostile/clients`` with pinned versions. The error names a missing tool, or a
program that cannot be built.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).with_name("clients")
BUILD_S = 600.0
RUN_S = 120.0


class ProgramError(Exception):
    """A program cannot be built, or failed."""


@dataclass(frozen=True, slots=True)
class Program:
    """One client: how it is built and run.

    ``{src}`` and ``{out}`` in a command are its folders; arguments of the run follow.
    """

    name: str
    folder: str  #: below ``bench/hostile/clients``
    tools: tuple[str, ...]  #: that have to be on the PATH
    build: tuple[tuple[str, ...], ...]
    run: tuple[str, ...]

    def made(self, out: Path) -> Program:
        """Build it into *out*, which may hold an earlier build; return it with its places filled in.

        Raises:
            ProgramError: a tool is missing, or a command failed.
        """
        missing = [tool for tool in self.tools if shutil.which(tool) is None]
        if missing:
            raise ProgramError(f"not on the PATH: {', '.join(missing)}")
        out.mkdir(parents=True, exist_ok=True)
        source = SOURCES / self.folder
        for command in self.build:
            _done(_filled(command, source, out), source, BUILD_S)
        return Program(self.name, self.folder, self.tools, (), _filled(self.run, source, out))

    def publish(self, *arguments: str) -> None:
        """Run it to its end.

        Raises:
            ProgramError: it failed; the text never repeats *arguments*, which hold a password.
        """
        _done((*self.run, *arguments), SOURCES / self.folder, RUN_S, secret=arguments)


def _filled(command: Sequence[str], source: Path, out: Path) -> tuple[str, ...]:
    return tuple(part.replace("{src}", str(source)).replace("{out}", str(out)) for part in command)


def _done(command: Sequence[str], folder: Path, limit_s: float, secret: Sequence[str] = ()) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise ProgramError(f"{command[0]} takes longer than {limit_s:g} s") from None
    if done.returncode:
        text = (done.stderr + done.stdout)[-600:]
        for word in secret:
            text = text.replace(word, "***")
        raise ProgramError(f"{Path(command[0]).name} ended with {done.returncode}: {text}")


_MAVEN = ("mvn", "-q", "-B", "-Dout={out}", "compile", "dependency:copy-dependencies")
_JAVA_BUILD = ((*_MAVEN, "-DoutputDirectory={out}/lib"),)
_JAVA = ("java", "-cp", "{out}/classes:{out}/lib/*")
_VENV = (sys.executable, "-m", "venv", "{out}")
_PYTHON_BUILD = (_VENV, ("{out}/bin/python", "-m", "pip", "install", "-q", "-r", "{src}/requirements.txt"))

GO = Program("go", "go", ("go",), (("go", "build", "-o", "{out}/publish", "."),), ("{out}/publish",))
JAVA = Program("java", "java", ("mvn", "java"), _JAVA_BUILD, (*_JAVA, "Plain"))
SPRING = Program("spring", "java", ("mvn", "java"), _JAVA_BUILD, (*_JAVA, "Spring"))
NODE = Program(
    "node",
    "node",
    ("node", "npm"),
    (
        ("cp", "-r", "{src}/.", "{out}"),
        ("npm", "--prefix", "{out}", "ci", "--silent", "--no-audit", "--no-fund"),
    ),
    ("node", "{out}/publish.js"),
)
CELERY = Program("celery", "python", (), _PYTHON_BUILD, ("{out}/bin/python", "{src}/publish_celery.py"))
MQTT = Program("mqtt", "python", (), _PYTHON_BUILD, ("{out}/bin/python", "{src}/publish_mqtt.py"))
