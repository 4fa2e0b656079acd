"""Rules on deliveries: failures, lateness, the objective, parked entries, lanes, balance."""

from __future__ import annotations

from typing import Final

from consumer.core.tools.alerts.model import Alert, Group, Record, Severity

_ENDED: Final = 'leveret_deliveries_total{@,verdict=~"delivered|parked"}'


def _missed(window: str) -> Record:
    """Return the share of the deliveries that missed the objective in *window*: late, or parked."""
    in_time = 'leveret_delivery_seconds_bucket{@,le=~"<delivery_s>([.]0)?"}'
    share = f"1 - sum by (@) (rate({in_time}[{window}])) / sum by (@) (rate({_ENDED}[{window}]))"
    return Record(f"leveret:deliveries_missed:ratio_rate{window}", share)


_REQUESTS: Final = (
    Record(
        "leveret:failures:ratio_rate5m",
        "sum by (@) (rate(leveret_failures_total{@}[5m])) / sum by (@) (rate(leveret_attempts_total{@}[5m]))",
    ),
    Alert(
        name="LeveretFailureRate",
        expr="leveret:failures:ratio_rate5m > <failure_share> "
        "and sum by (@) (increase(leveret_failures_total{@}[5m])) > <failures>",
        hold="5m",
        summary="More than <failure_share%> of the requests fail.",
        description="{{ $value | humanizePercentage }} of all HTTP requests of the last 5 minutes failed.",
        section="many-requests-fail",
    ),
    Alert(
        name="LeveretSlow",
        expr="histogram_quantile(0.95, sum by (@, le) (rate(leveret_delivery_seconds_bucket{@}[10m]))) "
        "> <delivery_s> or max by (@) (max_over_time(leveret_oldest_delivery_seconds{@}[3m])) > "
        "<delivery_s>",
        hold="5m",  # one late retry shows for a minute, and so holds for 4; a stuck or held one shows again
        summary="Deliveries take longer than <delivery_s~>.",
        description="5 % of the webhooks delivered in the last 10 minutes, or one that is not delivered yet, "
        'took {{ $value | printf "%.0f" }} s since the event.',
        section="deliveries-take-long",
    ),
    Record(
        "leveret:retries_by_kind:rate10m",
        "sum by (@, kind) (rate(leveret_retries_by_kind_total{@}[10m]))",
    ),
    Alert(
        name="LeveretUnusualRetries",
        expr="sum by (@, kind) (increase(leveret_retries_by_kind_total{@}[10m])) > <retries> "
        "and leveret:retries_by_kind:rate10m > <retries_factor> * "
        "sum by (@, kind) (rate(leveret_retries_by_kind_total{@}[6h] offset 10m)) "
        "and leveret:retries_by_kind:rate10m > on (@) group_left () "
        "<retries_share> * sum by (@) (rate(leveret_attempts_total{@}[10m]))",
        hold="2m",
        summary="Retries of one kind are far more than usual.",
        description='{{ $value | printf "%.0f" }} retries after {{ $labels.kind }} within 10 minutes: more '
        "than <retries_factor> times the rate of the 6 hours before.",
        section="unusual-retries",
    ),
)

_OBJECTIVE: Final[tuple[Alert | Record, ...]] = (
    *map(_missed, ("5m", "30m", "1h", "6h")),
    Alert(
        name="LeveretSloFastBurn",
        expr="leveret:deliveries_missed:ratio_rate1h > <burn_fast> * (1 - <slo>) "
        "and leveret:deliveries_missed:ratio_rate5m > <burn_fast> * (1 - <slo>) "
        f"and leveret:deliveries_missed:ratio_rate1h * sum by (@) (increase({_ENDED}[1h])) > <slo_missed>",
        hold="2m",
        severity=Severity.CRITICAL,
        summary="Many deliveries miss the objective.",
        description="{{ $value | humanizePercentage }} of the deliveries of the last hour came later than "
        "<delivery_s~> or were parked. At this rate a month's error budget ends within about two days.",
        section="deliveries-miss-the-objective",
    ),
    Alert(
        name="LeveretSloSlowBurn",
        expr="leveret:deliveries_missed:ratio_rate6h > <burn_slow> * (1 - <slo>) "
        "and leveret:deliveries_missed:ratio_rate30m > <burn_slow> * (1 - <slo>) "
        f"and leveret:deliveries_missed:ratio_rate6h * sum by (@) (increase({_ENDED}[6h])) > <slo_missed>",
        hold="15m",
        summary="Deliveries have missed the objective for hours.",
        description="{{ $value | humanizePercentage }} of the deliveries of the last 6 hours came later than "
        "<delivery_s~> or were parked. At this rate a month's error budget ends within five days.",
        section="deliveries-miss-the-objective",
    ),
)

_PARKED: Final = (
    Alert(
        name="LeveretParkedMany",
        expr='max by (@) (leveret_queue_messages{@,queue="parked"}) > <parked>',
        hold="1m",
        summary="More than <parked> entries are parked.",
        description="{{ $value }} entries wait for an operator.",
        section="parked-grows",
    ),
    Alert(
        name="LeveretParkedShare",
        expr='sum by (@) (rate(leveret_deliveries_total{@,verdict="parked"}[10m])) '
        f"/ sum by (@) (rate({_ENDED}[10m])) > <parked_share> "
        'and sum by (@) (increase(leveret_deliveries_total{@,verdict="parked"}[10m])) > <parked_new>',
        hold="5m",
        summary="More than <parked_share%> of the deliveries are parked.",
        description="{{ $value | humanizePercentage }} of the deliveries that ended in the last 10 minutes "
        "were parked.",
        section="parked-grows",
    ),
    Alert(
        name="LeveretParkedFull",
        expr='max by (@) (leveret_queue_messages{@,queue="overflow"}) > 0',
        hold="10m",
        summary="The parked queue is full.",
        description="{{ $value }} messages are in overflow. Nothing is lost; they move to parked as soon as "
        "there is room.",
        section="parked-is-full",
    ),
)

_EVENTS: Final = (
    Record("leveret:lane_messages:max", 'max by (@) (leveret_queue_messages{@,queue="lane"})'),
    Alert(
        name="LeveretLanesGrow",
        expr="leveret:lane_messages:max > <lane_messages> and deriv(leveret:lane_messages:max[10m]) > 0",
        hold="10m",
        summary="Events come faster than Leveret delivers them.",
        description="{{ $value }} fresh messages are in the lanes, and their number has grown for 10 "
        "minutes.",
        section="the-lanes-grow",
    ),
    Record(
        "leveret:unmatched:ratio_rate15m",
        'sum by (@) (rate(leveret_events_total{@,outcome="unmatched"}[15m])) '
        '/ sum by (@) (rate(leveret_events_total{@,outcome=~"matched|unmatched"}[15m]))',
    ),
    Alert(
        name="LeveretUnmatchedShare",
        expr="leveret:unmatched:ratio_rate15m > <unmatched_share> "
        'and sum by (@) (increase(leveret_events_total{@,outcome="unmatched"}[15m])) > <unmatched>',
        hold="5m",
        summary="More than <unmatched_share%> of the events match no subscription.",
        description="{{ $value | humanizePercentage }} of the events of the last 15 minutes went to nobody.",
        section="events-match-no-subscription",
    ),
    Record(
        "leveret:targets_missing:sum",
        "sum by (@, instance) (leveret_targets_owed_total{@}) "
        "- sum by (@, instance) (leveret_targets_ended_total{@}) "
        "- sum by (@, instance) (leveret_targets_waiting{@}) "
        "- sum by (@, instance) (leveret_targets_in_flight{@}) "
        '- (sum by (@, instance) (leveret_targets_interrupted_total{@,source="lane"}) '
        "or 0 * sum by (@, instance) (leveret_targets_owed_total{@}))",
    ),
    Alert(
        name="LeveretBalanceBroken",
        expr="leveret:targets_missing:sum - min_over_time(leveret:targets_missing:sum[1h]) > 0 "
        "and leveret:targets_missing:sum > 0",
        hold="10m",
        severity=Severity.CRITICAL,
        summary="Deliveries are missing from Leveret's books.",
        description="By the books of {{ $labels.instance }} {{ $value }} deliveries of the last hour have "
        "neither ended nor wait, nor are they in flight.",
        section="the-balance-of-deliveries-is-broken",
    ),
)

DELIVERIES: Final = (
    Group("leveret-requests", _REQUESTS),
    Group("leveret-objective", _OBJECTIVE),
    Group("leveret-parked", _PARKED),
    Group("leveret-events", _EVENTS),
)
