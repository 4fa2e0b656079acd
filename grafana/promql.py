"""Build PromQL for the boards. In a selector ``@`` means the chosen workers, ``#`` RabbitMQ's job."""

from __future__ import annotations

from grafana.spec import Query

RATE = "[$__rate_interval]"
FIVE_MINUTES = "[5m]"  #: of a share that is shown as one number; the alerts judge the same time
OF_TENANT = ',tenant=~"$tenant"'
"""Restricts a selector to the chosen tenants."""
OF_SUBSCRIPTION = ',subscription=~"$tenant(/.*)?",subscription=~"$subscription"'
"""Restricts a selector to the chosen subscriptions of the chosen tenants; ``other`` is one of all."""


def rate(name: str, more: str = "", by: str = "", over: str = RATE) -> str:
    """Return the summed rate of a counter over all workers."""
    return f"sum{_by(by)} (rate({name}{{@{more}}}{over}))"


def over_range(name: str, by: str, more: str = "") -> str:
    """Return the growth of a counter over the time that the dashboard shows."""
    return f"sum by ({by}) (increase({name}{{@{more}}}[$__range]))"


def most(name: str, by: str = "", more: str = "") -> str:
    """Return the greatest value of any worker: for a gauge that all read from the broker or the store."""
    return f"max{_by(by)} ({name}{{@{more}}})"


def total(name: str, by: str = "", more: str = "") -> str:
    """Return the sum over all workers: of a gauge that each worker has for itself."""
    return f"sum{_by(by)} ({name}{{@{more}}})"


def of_process(expr: str) -> str:
    """Return *expr*, on series of a process, for workers alone: other programs have such series too."""
    return f"{expr} and on (job, instance) leveret_build_info{{@}}"


def or_none(expr: str, label: str) -> str:
    """Return *expr*, or if it has no result a single 0 whose *label* is ``none``."""
    return f'{expr} or (label_replace(vector(0), "{label}", "none", "", "") unless on () ({expr}))'


def age(name: str, by: str = "") -> str:
    """Return the seconds since the oldest Unix time of any worker; 0 where none is known."""
    oldest = f"time() - min{_by(by)} ({name}{{@}} > 0)"
    return oldest if by else f"({oldest}) or vector(0)"


def quantile(share: float, name: str) -> Query:
    """Return a quantile of a histogram over all labels."""
    inner = f"sum by (le) (rate({name}_bucket{{@}}{RATE}))"
    return Query(f"histogram_quantile({share}, {inner})", f"p{share * 100:g}")


def ratio(part: str, whole: str, legend: str = "") -> Query:
    """Return *part* divided by *whole*."""
    return Query(f"{part} / {whole}", legend)


def by_node(expr: str) -> str:
    """Return *expr*, one value for each node of RabbitMQ, with the node's name."""
    named = f"({expr}) * on (job, instance) group_left (rabbitmq_node) rabbitmq_identity_info{{#}}"
    return f"max by (rabbitmq_node, instance) ({named})"


def _by(labels: str) -> str:
    return f" by ({labels})" if labels else ""
