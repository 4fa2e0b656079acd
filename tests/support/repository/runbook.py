"""The runbook, and the anchors of its headings."""

from __future__ import annotations

import re

from docs.runbook_page import slug
from tests.support.data import ROOT

RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()


def slugs(page: str) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page, flags=re.MULTILINE)
    return {slug(heading) for heading in headings}
