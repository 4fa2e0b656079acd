"""List the dashboard's rows in order."""

from __future__ import annotations

from grafana.rows_care import ENDPOINTS, PARKED, WORKERS
from grafana.rows_delivery import ATTEMPTS, NOW, THROUGHPUT
from grafana.rows_tenants import FAIRNESS, TENANTS

ROWS = (NOW, THROUGHPUT, ATTEMPTS, PARKED, ENDPOINTS, TENANTS, FAIRNESS, WORKERS)
