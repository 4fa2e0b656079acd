"""Describe a worker that cannot be asked, for the pages.

Data flow: health of the worker -> :class:`Unreached` -> :func:`consumer.web.pages.troubles.worker_trouble`.
"""

from __future__ import annotations

from consumer.web.pages.troubles import Unreached
from consumer.web.services import daemon


def unreached_of(found: daemon.Unreached) -> Unreached:
    """Return the view of a worker that cannot be asked."""
    return Unreached(why=found.why, remedy=found.remedy, consuming=found.consuming, has_ever_run=found.ever)
