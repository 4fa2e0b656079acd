"""Record OpenTelemetry spans and send them to a collector, beside the deliveries.

Finished takes of events and attempts come in; batches go out over OTLP/HTTP, or are counted as dropped.
The ids of a span, and whether it is recorded, belong to ``consumer.core.spans``. Only this package imports
``opentelemetry``; it is imported only if the settings name a collector.
"""
