"""Series that alerts and the runbook name already, and that no worker has yet.

Remove this file once ``metrics/series.py`` has all of them.
"""

from __future__ import annotations

from typing import Final

COMING: Final = frozenset(
    (
        "leveret_targets_ended_total",
        "leveret_targets_in_flight",
        "leveret_targets_interrupted_total",
        "leveret_targets_owed_total",
        "leveret_targets_waiting",
    )
)
