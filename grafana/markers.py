"""Marks on every graph: starts of workers with their version, open breakers, reroutes of tenants."""

from __future__ import annotations

from dataclasses import dataclass

from grafana_foundation_sdk.builders import dashboard, prometheus
from grafana_foundation_sdk.models import common

from grafana.spec import Query


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerSpec:
    """One kind of mark: Grafana draws one for each time at which the query has a value over 0."""

    name: str
    query: Query  #: its legend is the mark's text
    colour: str
    value_is_time: bool = False  #: the value is the mark's Unix time in ms

    def build_for(self, source: common.DataSourceRef) -> dashboard.AnnotationQuery:
        """Return the mark for Grafana, read from *source*."""
        target = prometheus.Dataquery().expr(self.query.promql).ref_id("Anno").range().interval("30s")
        return (
            dashboard.AnnotationQuery()
            .name(self.name)
            .datasource(source)
            .enable(True)
            .icon_color(self.colour)
            .expr(self.query.promql)
            .target(target)
            .step("30s")
            .title_format(self.name)
            .text_format(self.query.legend)
            .use_value_for_time(self.value_is_time)
        )


MARKERS = (
    MarkerSpec(
        name="Starts of workers",
        query=Query(
            "1000 * max by (instance, version) (process_start_time_seconds{@} * on (job, instance) "
            "group_left (version) leveret_build_info{@})",
            "{{instance}} started with version {{version}}",
        ),
        colour="blue",
        value_is_time=True,
    ),
    MarkerSpec(
        name="Open breakers",
        query=Query(
            'max by (subscription) (leveret_subscription_breaker{@,subscription!="other"}) == 2',
            "{{subscription}} gets no requests",
        ),
        colour="red",
    ),
    MarkerSpec(
        name="Reroutes",
        query=Query(
            'max by (tenant) (leveret_tenant_rerouted{@,tenant!="other"}) > 0',
            "new events of {{tenant}} are rerouted",
        ),
        colour="orange",
    ),
)
