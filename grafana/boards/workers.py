"""Workers and broker: the machine below, by worker, by node of RabbitMQ and by kind of queue."""

from __future__ import annotations

from grafana.boards.broker import BROKER, QUEUES, WORK
from grafana.promql import RATE, most, of_process, rate, total
from grafana.spec import BoardSpec, Kind, PanelSpec, Query, RowSpec

INSTANCE = "{{instance}}"
START = of_process("process_start_time_seconds{@}")
CPU = of_process(f"rate(process_cpu_seconds_total{{@}}{RATE})")
MEMORY = of_process("process_resident_memory_bytes{@}")
HANDLES = of_process("process_open_fds{@} / process_max_fds{@}")
STORE = "the-store-is-away-or-damaged"

WORKERS = RowSpec(
    "Workers",
    (
        PanelSpec(
            title="Workers",
            text="Each worker with its version and start. CPU: cores in use, at most 1 for the event loop. "
            "memory: of the whole process. handles: open files and sockets, as a share of the process' "
            "limit. loop lag: longest delay of the event loop in the last minute.",
            queries=(
                Query("max by (instance, version) (leveret_build_info{@})", "running", values={"1": "yes"}),
                Query(f"1000 * max by (instance) ({START})", "started", "dateTimeFromNow"),
                Query(f"max by (instance) ({CPU})", "CPU", warn=0.8, bad=0.95),
                Query(f"max by (instance) ({MEMORY})", "memory", "bytes"),
                Query(
                    f"max by (instance) ({HANDLES})",
                    "handles",
                    "percentunit",
                    warn=0.7,
                    bad=0.9,
                ),
                Query(most("leveret_loop_lag_seconds", "instance"), "loop lag", "s", warn=0.1, bad=1),
                Query(total("leveret_requests_in_flight", "instance"), "in flight"),
                Query(
                    "min by (instance) (leveret_ready{@})",
                    "ready",
                    warn=1,
                    bad=0.5,
                    values={"0": "no", "1": "yes"},
                ),
            ),
            kind=Kind.TABLE,
            width=24,
            height=6,
            sort="loop lag",
            runbook="the-daemon-does-not-answer",
        ),
        PanelSpec(
            title="CPU",
            text="CPU cores that each worker uses. Near 1 the worker's event loop is full: add a worker.",
            queries=(Query(f"max by (instance) ({CPU})", INSTANCE),),
            warn=0.8,
            bad=0.95,
            runbook="deliveries-take-long",
        ),
        PanelSpec(
            title="Event loop",
            text="Longest delay of a due callback in the last minute. Over 1 s the worker is short of CPU.",
            queries=(Query(most("leveret_loop_lag_seconds", "instance"), INSTANCE),),
            unit="s",
            warn=0.1,
            bad=1,
            runbook="deliveries-take-long",
        ),
        PanelSpec(
            title="Memory",
            text="Resident memory of each worker: what the process takes from the machine.",
            queries=(Query(f"max by (instance) ({MEMORY})", INSTANCE),),
            unit="bytes",
            runbook="a-worker-dies-again-and-again",
        ),
        PanelSpec(
            title="In hand, not started",
            text="Messages that the broker gave to a worker and that no job works on yet, by source. Each "
            "source has a window, the number of messages that a worker may have in hand.",
            queries=(Query(total("leveret_window_messages", "source"), "{{source}}"),),
            kind=Kind.STACK,
            runbook="deliveries-take-long",
        ),
        PanelSpec(
            title="Bytes in hand",
            text="Bytes of the messages in hand by source, and of the worker with the most. At half of "
            "[limits] memory_bytes a worker stops reading.",
            queries=(
                Query(total("leveret_window_bytes", "source"), "{{source}}"),
                Query("max(leveret_held_bytes{@})", "largest worker"),
            ),
            unit="bytes",
            runbook="deliveries-take-long",
        ),
        PanelSpec(
            title="Live workers",
            text="Live workers, as each of them counts. Rates are divided by the number. A worker that "
            "counts otherwise is cut off from the others.",
            queries=(Query(most("leveret_workers", "instance"), INSTANCE),),
            runbook="the-daemon-does-not-answer",
        ),
    ),
)

INSIDE = RowSpec(
    "Store, history and tasks",
    (
        PanelSpec(
            title="Store",
            text="The store has the subscriptions and secrets. available: it can be read and written. the "
            "right one: the broker's messages were made with it. Delivery goes on without it.",
            queries=(
                Query("min by (instance) (leveret_store_up{@})", f"available: {INSTANCE}"),
                Query("min by (instance) (leveret_store_trusted{@})", f"the right one: {INSTANCE}"),
            ),
            kind=Kind.TIMELINE,
            warn=1,
            bad=0.5,
            values={"0": "no", "1": "yes"},
            runbook=STORE,
        ),
        PanelSpec(
            title="Dropped",
            text="Per minute: changes of the parked index, rows of the history by reason, and lines of the "
            "log that were dropped so that delivery goes on; events that were sent without a look-up of "
            "repeated ids.",
            queries=(
                Query(f"60 * {rate('leveret_records_dropped_total')}", "index changes"),
                Query(
                    f"60 * {rate('leveret_history_dropped_total', by='reason')}", "history rows: {{reason}}"
                ),
                Query(f"60 * {rate('leveret_log_lines_dropped_total')}", "log lines"),
                Query(f"60 * {rate('leveret_history_lookups_missed_total')}", "look-ups missed"),
            ),
            unit="cpm",
            bad=1,
            runbook="the-history-has-gaps",
        ),
        PanelSpec(
            title="Failed tasks",
            text="Failures of background tasks, per minute: the five worst tasks. The log has the errors.",
            queries=(Query(f"topk(5, 60 * {rate('leveret_task_failures_total', by='task')})", "{{task}}"),),
            unit="cpm",
            bad=1,
            runbook="a-task-ended-unexpectedly",
        ),
        PanelSpec(
            title="Reloads and operational events",
            text="Reloads of the subscriptions by result, and operational events (breaker.opened and the "
            "like) that were published, per minute.",
            queries=(
                Query(f"60 * {rate('leveret_reloads_total', by='result')}", "reloads: {{result}}"),
                Query(f"60 * {rate('leveret_ops_events_total')}", "operational events"),
            ),
            unit="cpm",
            runbook=STORE,
        ),
        PanelSpec(
            title="Spans",
            text="OpenTelemetry spans that were recorded, per minute: exported to the collector, or dropped: "
            "no room (full), refused by it, or the worker stopped. 0 without [tracing].",
            queries=(Query(f"60 * {rate('leveret_spans_total', by='result')}", "{{result}}"),),
            unit="cpm",
        ),
        PanelSpec(
            title="Tenants with series",
            text="Tenants seen since the start: with series of their own, and others, which share the name "
            "other.",
            queries=(Query(most("leveret_tenants", "series"), "{{series}}"),),
        ),
        PanelSpec(
            title="Certificates and secrets end in",
            text="Time until our own certificates, and the soonest of the old secrets that are still "
            "accepted, end. Without either there is no bar.",
            queries=(
                Query(
                    "min by (certificate) (leveret_certificate_expiry_timestamp_seconds{@}) - time()",
                    "{{certificate}}",
                ),
                Query("min(leveret_secret_expiry_timestamp_seconds{@} > 0) - time()", "an old secret"),
            ),
            kind=Kind.BARS,
            unit="s",
            warn=1_209_600,
            bad=259_200,
            runbook="a-certificate-or-a-secret-is-about-to-expire",
        ),
    ),
    collapsed=True,
)

WORKERS_AND_BROKER = BoardSpec(
    name="workers",
    title="Leveret: workers and broker",
    text="The processes of Leveret, the nodes of RabbitMQ, and the queues by kind.",
    rows=(WORKERS, BROKER, QUEUES, WORK, INSIDE),
)
