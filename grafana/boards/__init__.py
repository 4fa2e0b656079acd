"""The three dashboards, in order; each links to the others."""

from __future__ import annotations

from grafana.boards.endpoints import ENDPOINTS
from grafana.boards.overview import OVERVIEW
from grafana.boards.workers import WORKERS_AND_BROKER

BOARDS = (OVERVIEW, ENDPOINTS, WORKERS_AND_BROKER)
