"""Build PromQL for the rows. ``@`` in a selector means the chosen jobs and instances."""

from __future__ import annotations

from grafana.spec import Query

RATE = "[$__rate_interval]"


def rate(name: str, more: str = "", by: str = "") -> str:
    """Return the summed rate of a counter over all workers."""
    over = f" by ({by})" if by else ""
    return f"sum{over} (rate({name}{{@{more}}}{RATE}))"


def over_range(name: str, by: str, more: str = "") -> str:
    """Return the growth of a counter over the time that the dashboard shows."""
    return f"sum by ({by}) (increase({name}{{@{more}}}[$__range]))"


def quantile(share: float, name: str) -> Query:
    """Return a quantile of a histogram over all labels."""
    inner = f"sum by (le) (rate({name}_bucket{{@}}{RATE}))"
    return Query(f"histogram_quantile({share}, {inner})", f"p{share * 100:g}")


def ratio(part: str, whole: str, legend: str = "") -> Query:
    """Return *part* divided by *whole*."""
    return Query(f"{part} / {whole}", legend)
