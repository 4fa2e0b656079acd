"""The reference leads from the names of the requirements to ours, and ours are there."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import yaml

from consumer.core.message.parked import delivery_entry_headers, entry_as_record, read_entry
from docs.generate import ROOT
from grafana.spec import SAMPLE, sample_names
from tests.support.builders.messages import message
from tests.support.builders.parked import NOTE, delivery, parked
from tests.support.flow.observer import VERDICTS, ObserverDesk
from tests.support.processes.prometheus import promtool

PAGE = (ROOT / "docs" / "reference.md").read_text("utf-8")
#: the fields of every line of the log; tests/edges/process/test_logs.py
LINE_OF = {"event", "level", "timestamp"}

ASKED_LINE = frozenset(
    [
        "level",
        "message",
        "jobId",
        "companyId",
        "attempt",
        "maxAttempts",
        "errorCode",
        "errorReason",
        "nextRetryDelay",
        "isRetryable",
        "timestamp",
    ]
)
ASKED_ENTRY = frozenset(
    [
        "jobId",
        "outboxId",
        "companyId",
        "originalData",
        "failedAttempts",
        "lastFailureReason",
        "lastFailureCode",
        "lastFailureTimestamp",
        "enqueuedAt",
        "movedToDLQAt",
        "ttl",
    ]
)


def rows(heading: str) -> list[list[str]]:
    """Return the cells of each row of the table under *heading*."""
    _, _, rest = PAGE.partition(f"\n### {heading}\n")
    section = re.split(r"\n#{2,3} ", rest)[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [re.split(r"\s*\|\s*", line)[1:-1] for line in lines[2:]]


def names(cell: str) -> set[str]:
    """Return the code in a cell."""
    return set(re.findall(r"`([a-z_0-9]+)`", cell))


def test_every_metric_that_was_asked_for_has_a_query(tmp_path: Path) -> None:
    """S1-9, S1-10, S2-3: each is in the table, reads series that a worker has, and Prometheus can read it."""
    table = rows("By the names of the requirements")
    queries = [cells[2].strip("`") for cells in table]
    rules = [{"record": f"asked:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "asked.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": rules}]}))

    done = promtool("check", "rules", file)

    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    for query in queries:
        assert set(SAMPLE.findall(query)) <= sample_names(), query
    known = {re.sub(r"_(bucket|sum|count)$", "", name) for name in sample_names()}
    assert all(query in known for query in queries if "(" not in query)
    asked = Counter(of for cells in table for of in cells[1].split(", "))
    assert asked == {"S1-9": 5, "S1-10": 12, "S2-3": 4}


def test_every_field_that_was_asked_for_is_there() -> None:
    """S1-3, S1-17: each name of the requirement leads to a field of the log line, or of a parked entry."""
    line = ObserverDesk().attempted(VERDICTS["retry"]).keys() | LINE_OF
    entry = entry_as_record(read_entry(parked(message(), delivery_entry_headers(delivery(), NOTE)))).keys()
    of_line: set[str] = set()
    of_entry: set[str] = set()
    for asked, in_line, in_entry in rows("Fields by the names of the requirements"):
        assert names(in_line) <= line, asked
        assert names(in_entry) <= entry, asked
        of_line |= set(asked.split(", ")) if names(in_line) else set()
        of_entry |= set(asked.split(", ")) if names(in_entry) else set()

    assert of_line >= ASKED_LINE
    assert of_entry >= ASKED_ENTRY
    assert of_line | of_entry <= ASKED_LINE | ASKED_ENTRY
