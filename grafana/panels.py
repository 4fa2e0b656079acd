"""What the dashboard shows, row by row."""

from __future__ import annotations

from grafana.rows_care import ENDPOINTS, PARKED, TENANTS, WORKERS
from grafana.rows_delivery import ATTEMPTS, NOW, THROUGHPUT

ROWS = (NOW, THROUGHPUT, ATTEMPTS, PARKED, ENDPOINTS, TENANTS, WORKERS)
