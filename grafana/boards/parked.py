"""Parked entries: how many, since when, why and of whom."""

from __future__ import annotations

from grafana.promql import OF_TENANT, age, most, over_range, rate, ratio
from grafana.spec import Kind, PanelSpec, Query, RowSpec

PARKED = RowSpec(
    "Parked entries: deliveries without a further attempt",
    (
        PanelSpec(
            title="Parked entries",
            text="Deliveries that wait for an operator. entries: by the store's index, also those in the "
            "hands of a command. parked: messages of the queue. overflow: a full queue sends them there.",
            queries=(
                Query(most("leveret_queue_messages", "queue", ',queue=~"parked|overflow"'), "{{queue}}"),
                Query(most("leveret_parked_entries"), "entries"),
                Query(most("leveret_parked_indexed_messages"), "messages of the index"),
            ),
            warn=50,
            bad=100,
            runbook="parked-grows",
        ),
        PanelSpec(
            title="Age of parked entries",
            text="Age of the oldest entry by the store's index, and the time since the queue was last seen "
            "empty. After 7 days ([topology] parked_ttl_s) an entry is archived.",
            queries=(
                Query(age("leveret_oldest_parked_timestamp_seconds"), "oldest entry"),
                Query(
                    "time() - max(max_over_time(leveret_parked_empty_timestamp_seconds{@}[7d]) > 0)",
                    "not empty for",
                ),
            ),
            kind=Kind.BARS,
            unit="s",
            warn=345_600,
            bad=518_400,
            runbook="parked-grows",
        ),
        PanelSpec(
            title="Share parked",
            text="Share of the ended deliveries that were parked; an endpoint accepted the others. Over 2 % "
            "an alert fires.",
            queries=(
                ratio(
                    rate("leveret_deliveries_total", ',verdict="parked"'),
                    rate("leveret_deliveries_total", ',verdict=~"delivered|parked"'),
                    "parked",
                ),
            ),
            unit="percentunit",
            warn=0.01,
            bad=0.02,
            runbook="parked-grows",
        ),
        PanelSpec(
            title="Parked by reason",
            text="Entries parked in the time that is shown, by reason. exhausted: no attempt is left. "
            "permanent: the endpoint refused for good. malformed and the like point to publishers.",
            queries=(Query(over_range("leveret_parked_total", "reason") + " > 0", "{{reason}}"),),
            kind=Kind.BARS,
            width=6,
            runbook="parked-grows",
        ),
        PanelSpec(
            title="Parked by last failure",
            text="Result of the last attempt. none: nothing was sent, for example to a disabled endpoint.",
            queries=(Query(over_range("leveret_parked_by_code_total", "code"), "{{code}}"),),
            kind=Kind.BARS,
            width=6,
            runbook="parked-grows",
        ),
        PanelSpec(
            title="Parked by tenant",
            text="The ten tenants with the most parked entries now. Over 50 an alert fires.",
            queries=(
                Query(
                    f"topk(10, {most('leveret_tenant_parked_entries', 'tenant', OF_TENANT)})",
                    "{{tenant}}",
                ),
            ),
            kind=Kind.BARS,
            width=6,
            warn=25,
            bad=50,
            runbook="much-is-parked-for-one-tenant",
        ),
        PanelSpec(
            title="Age when leaving",
            text="Age at which entries left the parked queue in the time that is shown: replayed, archived "
            "as too old, or purged by a user. Each bar counts the entries up to that age.",
            queries=(
                Query(
                    over_range("leveret_parked_age_seconds_bucket", "way, le"),
                    "{{way}} after up to {{le}} s",
                ),
            ),
            kind=Kind.BARS,
            width=6,
        ),
    ),
)
