"""List every rule."""

from __future__ import annotations

from typing import Final

from consumer.core.tools.alerts.care_rules import CARE
from consumer.core.tools.alerts.delivery_rules import DELIVERIES
from consumer.core.tools.alerts.model import Group
from consumer.core.tools.alerts.worker_rules import WORKERS

GROUPS: Final[tuple[Group, ...]] = (*WORKERS, *DELIVERIES, *CARE)
