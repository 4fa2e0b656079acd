"""Count faults of the reasons: foreign references, long decisions, pointers to code that is gone.

Data flow: the tracked text files -> :mod:`docs.pointers` -> counts; each finding is noted by its place.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.house.structure import ROOT
from bench.prove import Bench, Goal, Measured, Proof
from docs.pointers import outside, stale

MOST_WORDS = 250
TEXTS = frozenset({".py", ".md", ".toml", ".yml", ".yaml", ".sh", ".conf"})
DECISIONS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))

GOALS = (
    Goal(name="foreign_references", text="0", unit="references", n=500),
    Goal(name="decisions_over_250_words", text="0", unit="decisions", n=20),
    Goal(name="stale_code_pointers", text="0", unit="pointers", n=20),
)


def written() -> list[Path]:
    """Return every tracked file that people read."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [Path(name) for name in done.stdout.split("\0") if Path(name).suffix in TEXTS]


def foreign(paths: Sequence[Path]) -> list[str]:
    """Return each reference to a document that the repository does not hold, with its file."""
    return [f"{path}: {found}" for path in paths for found in outside((ROOT / path).read_text("utf-8"))]


async def prove(bench: Bench) -> Sequence[Measured]:
    """Count, and note each finding."""
    paths = written()
    findings = {
        "foreign_references": (foreign(paths), len(paths)),
        "decisions_over_250_words": (
            [page.name for page in DECISIONS if len(page.read_text("utf-8").split()) > MOST_WORDS],
            len(DECISIONS),
        ),
        "stale_code_pointers": (
            [f"{page.name}: {name}" for page in DECISIONS for name in stale(page)],
            len(DECISIONS),
        ),
    }
    for name, (found, _) in findings.items():
        bench.note(f"{name}_found", found)
    return [Measured(name=name, value=len(found), n=n) for name, (found, n) in findings.items()]


PROOF = Proof("reasons", GOALS, prove)
