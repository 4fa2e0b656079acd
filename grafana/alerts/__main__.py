"""Write grafana/alerts.yml and its cases: ``python -m grafana.alerts``; ``--check`` only compares them.

``leveret alerts`` prints the rules with other options.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from consumer.core.tools.alerts.model import AlertOptions
from grafana.alerts.files import files, write

FOLDER = Path(__file__).parents[1]


def main(arguments: Sequence[str]) -> int:
    """Write the files, or with ``--check`` return 1 if one of them is stale."""
    if "--check" in arguments:
        made = files(AlertOptions())
        return int(any((FOLDER / name).read_text("utf-8") != text for name, text in made.items()))
    write(FOLDER, AlertOptions())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
