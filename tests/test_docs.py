"""The documents agree with the code: generated parts, links, named places and tests."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from consumer.core.changes.file import parse_subscriptions
from consumer.core.model import ParkReason
from consumer.core.retry.policy import POLICIES
from consumer.core.subscription.match import Matcher
from consumer.core.subscription.rules import SubscriptionRules
from consumer.core.webhook.signing import sign
from consumer.edges.serve.runbook import RUNBOOK_FILE
from consumer.settings import LimitsSettings, SendingSettings, WindowsSettings, load
from docs import generate
from docs.pointers import FOLDERS, outside, stale

ROOT = generate.ROOT
PAGES = (
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "reference").glob("*.md")),
    *sorted((ROOT / "docs" / "adr").glob("*.md")),
)
REASONS = (ROOT / "docs" / "requirements.md", ROOT / "docs" / "faults.md")
DECISIONS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))

IDS: Sequence[str] = (
    *(f"S0-{n}" for n in range(1, 11)),
    *(f"S1-{n}" for n in range(1, 18)),
    *(f"S2-{n}" for n in range(1, 8)),
    *(f"S3-{n}" for n in range(1, 7)),
    *(f"S4-{n}" for n in range(1, 4)),
    *map(str, (*range(1, 4), *range(5, 11), 12, 13, 14, 16, 18, 19)),
    *map(str, (*range(20, 25), *range(26, 30), 31, 32, 33)),
    *map(str, (34, *range(36, 41), *range(42, 46), 47, 49, *range(51, 56))),
    *map(str, (*range(57, 66), *range(67, 73), 74, 75, *range(76, 79))),
    *map(str, (*range(80, 95), 96, 97, 98)),
    *(f"SW-{n:02d}" for n in (*range(1, 12), *range(20, 28), *range(30, 48))),
)
"""Every requirement, every row of faults, every rule of the specification."""


def words(path: Path) -> str:
    """Return the text of a page without its code blocks."""
    return re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)


def written() -> Sequence[Path]:
    """Return every page and every module."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    return [*PAGES, *(path for path in found if path.suffix in {".py", ".md"})]


def known_tests() -> Mapping[str, str]:
    """Return every test by its name, with its docstring."""
    found: dict[str, str] = {}
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                found[node.name] = found.get(node.name, "") + (ast.get_docstring(node) or "")
    return found


def named(docstring: str) -> set[str]:
    """Return the ids that a docstring names; ``faults 37-40, 55`` names five."""
    ids = set(re.findall(r"\b(?:S\d-\d+|SW-\d\d)\b", docstring))
    for row in re.findall(r"\b[Ff]aults? ((?:\d+(?:-\d+)?(?:, | and )?)+)", docstring):
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", row):
            ids |= set(map(str, range(int(first), int(last or first) + 1)))
    return ids


@pytest.mark.parametrize("path", generate.FILES, ids=lambda path: path.name)
def test_generated_parts_are_up_to_date(path: Path) -> None:
    """Tables of settings, metrics, commands, policies ... are current."""
    text = path.read_text()

    assert generate.generated(text) == text, "run `.venv/bin/python -m docs.generate`"


def test_the_schema_for_editors_is_up_to_date() -> None:
    """The checked-in JSON Schema is the one that the code makes."""
    assert generate.SCHEMA.read_text() == generate.schema_text(), "run `.venv/bin/python -m docs.generate`"


def test_the_page_of_the_runbook_is_up_to_date() -> None:
    """The page that the daemon serves is made from docs/runbook.md; it keeps every link within the page."""
    page = RUNBOOK_FILE.read_text()

    assert page == generate.runbook_text(), "run `.venv/bin/python -m docs.generate`"
    anchors = set(re.findall(r' id="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= anchors


def test_every_block_is_used() -> None:
    """Every generated table has a generator, and every opened one an end."""
    text = "".join(path.read_text() for path in generate.FILES)

    for name in generate.BLOCKS:
        assert f"<!-- generated: {name} -->\n" in text
    assert text.count("<!-- generated: ") == text.count("<!-- end -->")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    """Every relative link names a file that exists, and a heading in it where it names one."""
    for target in re.findall(r"\]\(([^)\s]+)\)", words(path)):
        name, _, anchor = target.partition("#")
        if "://" in target:
            continue
        page = path.parent / name if name else path
        assert page.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, target


def test_no_amqp_url_ends_with_a_slash() -> None:
    """Fault 90: by RabbitMQ's URI rules that is the vhost "", and clients that keep to them are refused."""
    written = [
        *PAGES,
        *(ROOT / "docs").rglob("*.py"),
        *(ROOT / "deploy").iterdir(),
        ROOT / "docker-compose.yml",
    ]
    written += [*(ROOT / "consumer").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]
    for path in (path for path in written if path.is_file()):
        ended = re.findall(r"amqps?://[^\s\"'`/]+/(?=[\s\"'`;)]|\\n|$)", path.read_text(), re.MULTILINE)
        assert [url for url in ended if not url.endswith("://host/")] == [], path


def test_metrics_list_their_label_values() -> None:
    """S1-10: the notes beside the series are found, and closed sets are written out."""
    text = generate.metrics_table()

    for value in ("matched", "http_5xx", "exhausted", "saturated", "probing", "unroutable"):
        assert value in text, value


def test_every_requirement_and_fault_has_one_row() -> None:
    """Each id has one row: the wish, and a test that names the id, or the word later."""
    text = "".join(page.read_text() for page in REASONS)
    rows = re.findall(r"^\| (S\d-\d+|SW-\d+|\d+) \| (.*) \|$", text, flags=re.MULTILINE)

    assert Counter(row[0] for row in rows) == Counter(IDS)
    known = known_tests()
    for name, rest in rows:
        cells = rest.split(" | ")
        assert len(cells) == (4 if name.isdigit() else 3), name
        assert cells[0].endswith("."), name
        tests = re.findall(r"`(test_\w+)`", rest)
        assert tests or "later" in rest or name == "SW-24", name
        assert not tests or any(name in named(known.get(test, "")) for test in tests), name


@pytest.mark.parametrize("page", [*REASONS, *DECISIONS], ids=lambda page: page.name)
def test_every_name_in_the_reasons_exists(page: Path) -> None:
    """Requirements, faults and decisions name paths, tests, settings and code that exist."""
    assert stale(page) == []


def test_a_stale_name_is_found(tmp_path: Path) -> None:
    """Each shape of a name is looked up: path, file beside it, name in a file, setting, word."""
    page = tmp_path / "page.md"
    page.write_text(
        "`consumer/cli/waiting.py`, `pause.py`, `by_hand` in `consumer/core/endpoint/breaker.py`,\n"
        "`[sending] timeout_s = 3`, `Job.lost`, `leveret.parked`, `test_a_stale_name_is_found`, `1 + 1`\n"
        "`consumer/gone.py`, `gone.py`, `gone` in `consumer/core/endpoint/breaker.py`,\n"
        "`[sending] gone_s`, `Job.gone`, `leveret.gone`, `test_gone`\n"
    )

    assert stale(page) == [
        "consumer/gone.py",
        "gone.py",
        "gone in consumer/core/endpoint/breaker.py",
        "[sending] gone_s",
        "Job.gone",
        "leveret.gone",
        "test_gone",
    ]


def test_every_setting_of_the_worker_is_read() -> None:
    """No setting is accepted and then without effect."""
    code = "".join(
        path.read_text() for path in (ROOT / "consumer").rglob("*.py") if path.name != "sections.py"
    )

    for name in (*SendingSettings.model_fields, *WindowsSettings.model_fields, *LimitsSettings.model_fields):
        assert name == "client" or re.search(rf"\.{name}\b", code), name


def test_every_park_reason_is_in_the_runbook() -> None:
    """S1-13: an operator finds each reason that `parked list` can print."""
    text = (ROOT / "docs" / "runbook.md").read_text()

    assert [reason for reason in ParkReason if f"`{reason.value}`" not in text] == []


def test_the_reasons_of_readyz_are_in_the_code() -> None:
    """Fault 63: an operator who searches for the words of /readyz finds them."""
    page = (ROOT / "docs" / "runbook.md").read_text()
    tables = re.findall(r"^\| (?:reason|log line) \| do \|\n(.*?)\n\n", page, flags=re.DOTALL | re.MULTILINE)
    rows = "\n".join(tables)
    first_cells = [row.split("|")[1] for row in rows.splitlines()[1:]]
    reasons = [reason for cell in first_cells for reason in re.findall(r"`([^`]+)`", cell)]
    code = "".join(path.read_text() for path in (ROOT / "consumer").rglob("*.py"))

    assert len(tables) == 2
    assert len(reasons) >= 7
    for reason in reasons:
        fixed = re.split(r" \d| …|:", reason)[0]
        assert fixed in code, reason


def test_the_make_targets_that_are_named_exist() -> None:
    """Pages name only targets that exist."""
    makefile = (ROOT / "Makefile").read_text()
    named = {
        target
        for path in PAGES
        for target in re.findall(r"(?:`|^)make ([a-z-]+)", path.read_text(), flags=re.MULTILINE)
    }

    assert {"run", "test", "prove-core"} <= named
    assert [target for target in named if f"\n{target}:" not in makefile] == []


def test_the_leveret_commands_that_are_named_exist() -> None:
    """No page names a command or an option of `leveret` that is not there."""
    known = {"leveret": "--version --install-completion"}
    for line in generate.cli_tables().splitlines()[2:]:
        command, _, takes = line.strip("| ").partition("` |")
        known[command.strip("`")] = takes
    groups = {name.rpartition(" ")[0] for name in known} - {"leveret"}
    for path in PAGES:
        for used in re.findall(
            r"(?:^|`|bin/)leveret ([a-z][^`\n|#>)]*)", path.read_text(), flags=re.MULTILINE
        ):
            parts = used.split()
            alone = f"leveret {parts[0]}" in known
            first = " ".join(("leveret", *parts[: 1 if alone else 2]))
            if first.rstrip(".,:;") in groups or "|" in used:
                continue
            assert first in known, f"{path.name}: {used}"
            for option in re.findall(r"--[a-z-]+", used):
                assert option in known[first] or option == "--help", f"{path.name}: {used}"


def test_the_subscription_examples_are_valid() -> None:
    """Every subscriptions file in the pages parses; so does the walk's, under the walk's settings."""
    walk = load({"LEVERET_CONFIG": str(ROOT / "docs/examples/leveret.toml")}).settings.subscription_rules()
    text = (ROOT / "docs/examples/subscriptions.yaml").read_text()

    [entry] = parse_subscriptions(text, "subscriptions.yaml", walk).entries

    built = entry.build(walk)
    assert [s.name for s in Matcher([built]).match("acme", "order.created")] == ["shop"]
    blocks = [
        found
        for path in PAGES
        for found in re.findall(
            r"^```yaml\n(subscriptions:\n.*?)^```", path.read_text(), flags=re.DOTALL | re.M
        )
    ]
    assert len(blocks) >= 2
    for block in blocks:
        assert parse_subscriptions(block, "page", walk).entries


def test_the_settings_examples_are_valid(tmp_path: Path) -> None:
    """Every `leveret.toml` that a page shows loads."""
    pattern = re.compile(r"^```toml\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
    blocks = [block for path in PAGES for block in pattern.findall(path.read_text())]

    assert len(blocks) >= 5
    for block in blocks:
        file = tmp_path / "leveret.toml"
        file.write_text(block)
        assert load({"LEVERET_CONFIG": str(file)}).origins, block


def test_the_hand_made_verification_works() -> None:
    """SW-05: the lines that the receivers' page shows for use without a library do verify, and can refuse."""
    page = (ROOT / "docs" / "receive.md").read_text()
    [code] = re.findall(r"```python\n(import base64.*?)```", page, flags=re.DOTALL)
    scope: dict[str, object] = {}
    exec(code, scope)  # noqa: S102 - it is our own page
    verifies = scope["verifies"]
    assert callable(verifies)
    secret = "whsec_" + "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
    rules = SubscriptionRules(policies=POLICIES)
    text = f"subscriptions: [{{url: 'https://a.example/', events: ['#'], secrets: ['{secret}']}}]"
    [entry] = parse_subscriptions(text, "x", rules).entries
    signed = sign(entry.signing_keys(), "evt_1", 1700000000, b"{}")

    assert verifies(secret, "evt_1", "1700000000", signed, b"{}")
    assert not verifies(secret, "evt_1", "1700000000", signed, b"{ }")


def test_decisions_are_numbered_short_and_listed() -> None:
    """Each decision has the next number, four parts, 250 words at most, and a row in the index."""
    index = (ROOT / "docs" / "adr" / "README.md").read_text().partition("## Earlier numbers")[0]

    assert [int(page.name[:4]) for page in DECISIONS] == list(range(1, len(DECISIONS) + 1))
    assert len(re.findall(r"^\| \[\d+\]", index, flags=re.MULTILINE)) == len(DECISIONS)
    for page in DECISIONS:
        text, number = page.read_text(), int(page.name[:4])
        assert text.startswith(f"# {number}. "), page.name
        assert all(f"**{part}.**" in text for part in ("Context", "Decision", "Reason", "Price")), page.name
        assert "\nCode: `" in text, page.name
        assert len(text.split()) <= 250, page.name
        assert f"| [{number}]({page.name}) | {text.partition('. ')[2].partition(chr(10))[0]} |" in index, (
            page.name
        )


def test_decisions_are_cited_by_their_present_number() -> None:
    """Code, tests and pages cite "decision 12", which exists; "ADR" was the word for the earlier numbers."""
    for path in written():
        text = path.read_text()
        assert not re.search(r"\bADRs? \d", text), path
        cited = re.findall(r"\b[Dd]ecision (\d+)", text)
        assert all(1 <= int(number) <= len(DECISIONS) for number in cited), path
        for number, file in re.findall(r"\[[Dd]ecision (\d+)\]\([^)]*?(\d{4})-", text):
            assert int(number) == int(file), path


def test_nothing_outside_the_repository_is_cited() -> None:
    """A reader of the repository can follow every reference; the patterns find the usual ones."""
    past = "FAULTS" + " 12, REQUIREMENTS" + ".md, Issue" + " 4, the" + " issue"

    assert len(outside(past)) == 4
    assert [(path, found) for path in written() if (found := outside(path.read_text()))] == []
