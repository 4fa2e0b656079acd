"""Read the subscriptions files that a command names, with the files of each folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import typer

from consumer.core.errors import ConfigError

ENDINGS = (".yaml", ".yml", ".json")
"""Endings of the subscriptions files in a folder."""


def read_files(paths: Sequence[str]) -> list[tuple[str, str]]:
    """Return name and text of each file, and each file once; ``-`` is stdin.

    Raises:
        BadParameter: stdin is named twice.
        ConfigError: a folder has no such file, or a file is not UTF-8 text.
        OSError: a file cannot be read.
    """
    if paths.count("-") > 1:
        raise typer.BadParameter("- is given twice; stdin can be read only once")
    return [(file, _text(file)) for file in dict.fromkeys(file for path in paths for file in _files(path))]


def _files(path: str) -> Iterable[str]:
    if path == "-" or not os.path.isdir(path):
        return [path]
    found: list[str] = []
    for folder, inner, names in os.walk(path):
        # hidden folders, such as those behind a mounted Kubernetes volume, are skipped
        inner[:] = [name for name in inner if not name.startswith(".")]
        visible = (name for name in names if not name.startswith(".") and name.endswith(ENDINGS))
        found += (os.path.join(folder, name) for name in visible)
    if not found:
        raise ConfigError(f"{path}: holds no {', '.join(ENDINGS)} file; name another folder or a file")
    return sorted(found)


def _text(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text; save it as UTF-8") from None
