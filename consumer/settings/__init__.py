"""Settings: defaults < profile < preset < leveret.toml < LEVERET_* < command-line options; frozen.

Data flow: :func:`load_settings` -> :class:`Settings` -> app. Nothing else reads the environment.
"""

from consumer.settings.api import ApiSettings
from consumer.settings.fairness import FairnessSettings
from consumer.settings.history import HistorySettings
from consumer.settings.load import Loaded, load, load_settings, variable
from consumer.settings.parked import ParkedSettings
from consumer.settings.root import Settings, split_amqp_urls
from consumer.settings.sections import (
    AmqpSettings,
    BreakerSettings,
    EventsSettings,
    LimitsSettings,
    LogSettings,
    MetricsSettings,
    Network,
    RetrySettings,
    SourceSettings,
    StoreSettings,
    TopologySettings,
    WindowsSettings,
)
from consumer.settings.sending import EgressSettings, SendingSettings
from consumer.settings.tracing import TracingSettings

__all__ = [
    "AmqpSettings",
    "ApiSettings",
    "BreakerSettings",
    "EgressSettings",
    "EventsSettings",
    "FairnessSettings",
    "HistorySettings",
    "LimitsSettings",
    "Loaded",
    "LogSettings",
    "MetricsSettings",
    "Network",
    "ParkedSettings",
    "RetrySettings",
    "SendingSettings",
    "Settings",
    "SourceSettings",
    "StoreSettings",
    "TopologySettings",
    "TracingSettings",
    "WindowsSettings",
    "load",
    "load_settings",
    "split_amqp_urls",
    "variable",
]
