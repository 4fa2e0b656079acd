"""A worker without a collector in its settings."""

from __future__ import annotations

import subprocess
import sys

import pytest

from consumer.daemon.tracing import tracing_of
from consumer.flow.base.no_tracer import NoTracer
from consumer.flow.observe.observer import Observer
from consumer.settings import load_settings
from tests.support.flow.tracing import SpanDesk

LOADED = """
import sys
import consumer.daemon.life
print([name for name in sys.modules if name.startswith(("opentelemetry", "google.protobuf"))])
"""
MISSING = """
import sys
sys.modules["opentelemetry.proto"] = None  # as without the extra
from consumer.core.errors import ConfigError
from consumer.daemon.tracing import tracing_of
from consumer.settings import load_settings
settings = load_settings({"LEVERET_TRACING__ENDPOINT": "http://127.0.0.1:4318"})
try:
    tracing_of(settings, "w1", None)
except ConfigError as error:
    print(error)
"""


def printed(code: str) -> str:
    """Return the output of a process of its own."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.strip()


def test_nothing_of_opentelemetry_is_imported() -> None:
    """Neither its packages nor protobuf."""
    assert printed(LOADED) == "[]"


def test_the_missing_extra_is_a_fault_of_the_settings() -> None:
    """The error names the remedy."""
    assert printed(MISSING).startswith("tracing.endpoint needs pip install 'leveret[otel]': ")


def test_no_endpoint_is_no_tracing() -> None:
    """The worker's tracer is off."""
    assert tracing_of(load_settings({}), "w1", SpanDesk().observe) is None
    assert not NoTracer().is_on


@pytest.mark.parametrize("url", ["http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"])
async def test_an_endpoint_is_tracing(url: str) -> None:
    """With the exporter of the daemon."""
    observe: Observer = SpanDesk().observe
    tracing = tracing_of(load_settings({"LEVERET_TRACING__ENDPOINT": url}), "w1", observe)

    assert tracing is not None
    assert tracing.tracer.is_on
    await tracing.exporter.finish()
