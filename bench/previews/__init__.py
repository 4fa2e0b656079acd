"""Previews of the dashboards, drawn from the answers of a real Prometheus: ``python -m bench.previews``."""
