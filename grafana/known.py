"""Name the series of others that the dashboards read: the process collector's and RabbitMQ's.

The names of our own series come from metrics/series.py. A test asks a real worker and RabbitMQ for each.
"""

from __future__ import annotations

PROCESS_SAMPLES = frozenset(
    f"process_{name}"
    for name in (
        "cpu_seconds_total",
        "max_fds",
        "open_fds",
        "resident_memory_bytes",
        "start_time_seconds",
        "virtual_memory_bytes",
    )
)
"""Of prometheus_client's ProcessCollector."""

BROKER_SAMPLES = frozenset(
    f"rabbitmq_{name}"
    for name in (
        "alarms_file_descriptor_limit",
        "alarms_free_disk_space_watermark",
        "alarms_memory_used_watermark",
        "build_info",
        "channels",
        "connections",
        "connections_opened_total",
        "disk_space_available_bytes",
        "disk_space_available_limit_bytes",
        "erlang_processes_limit",
        "erlang_processes_used",
        "erlang_uptime_seconds",
        "global_consumers",
        "global_messages_acknowledged_total",
        "global_messages_confirmed_total",
        "global_messages_dead_lettered_expired_total",
        "global_messages_delivered_total",
        "global_messages_received_total",
        "global_messages_redelivered_total",
        "identity_info",
        "process_max_fds",
        "process_open_fds",
        "process_resident_memory_bytes",
        "queue_messages",
        "queue_messages_ready",
        "queue_messages_unacked",
        "queues",
        "resident_memory_limit_bytes",
    )
)
"""Of the plugin rabbitmq_prometheus, on RabbitMQ 3.10 to 4."""
