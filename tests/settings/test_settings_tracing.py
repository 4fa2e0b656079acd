"""The section ``[tracing]``: where spans go, and its secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from consumer.core.errors import ConfigError
from consumer.settings import load_settings
from tests.support.settings import faults

ENDPOINT = "LEVERET_TRACING__ENDPOINT"
HEADERS = "LEVERET_TRACING__HEADERS"


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("https://otlp.example/", "https://otlp.example/v1/traces"),
        ("https://otlp.example/tenant/v1/traces", "https://otlp.example/tenant/v1/traces"),
    ],
)
def test_the_path_is_added_where_it_is_missing(endpoint: str, url: str) -> None:
    """As OTEL_EXPORTER_OTLP_ENDPOINT and its form for traces do it."""
    assert load_settings({ENDPOINT: endpoint}).tracing.url == url


def test_spans_are_off_by_default() -> None:
    """Without an endpoint nothing else matters."""
    assert load_settings({}).tracing.url is None
    assert load_settings({HEADERS: "a=b"}).tracing.url is None


@pytest.mark.parametrize(
    "endpoint",
    [
        "127.0.0.1:4318",
        "grpc://x:4317",
        "http://",
        "https://u:pw@x",
        "https://x/?key=s3cret",
        "http://x:99999",
    ],
)
def test_an_endpoint_that_is_no_plain_url_is_refused(endpoint: str) -> None:
    """A secret belongs to the headers, which are never shown."""
    [fault] = faults({ENDPOINT: endpoint})

    assert "must be the URL of a collector" in fault
    assert "s3cret" not in fault


def test_headers_are_read_from_the_settings_or_a_file(tmp_path: Path) -> None:
    """In the form of OTEL_EXPORTER_OTLP_HEADERS; in a file also one a line."""
    wanted = (("x-key", "a=b"), ("authorization", "Basic dTpw"))
    file = tmp_path / "headers"
    file.write_text("x-key=a=b\nauthorization = Basic dTpw\n")

    given = load_settings({HEADERS: " x-key=a=b , authorization=Basic dTpw"})
    mounted = load_settings({"LEVERET_TRACING__HEADERS_FILE": str(file)})

    assert given.tracing_headers() == mounted.tracing_headers() == wanted
    assert load_settings({}).tracing_headers() == ()
    assert "dTpw" not in json.dumps(given.model_dump(mode="json")) + repr(given)


def test_values_of_headers_are_percent_encoded() -> None:
    """As in OTEL_EXPORTER_OTLP_HEADERS, so that a value can contain a comma; a plus sign is no space."""
    given = load_settings({HEADERS: "authorization=Basic%20dTpw+/==,x-list=a%2Cb%25,x-odd=50%"})

    wanted = (("authorization", "Basic dTpw+/=="), ("x-list", "a,b%"), ("x-odd", "50%"))
    assert given.tracing_headers() == wanted


WRONG = ("s3cret", "=s3cret", "a b=s3cret", "a=s3cret\u00e9", "a=s3cret%0d%0ab: c", "ok=1,s3cret")


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_header_is_named_by_its_place(text: str, tmp_path: Path) -> None:
    """It may be a secret, so no error repeats it."""
    [fault] = faults({HEADERS: text})
    file = tmp_path / "headers"
    file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_settings({"LEVERET_TRACING__HEADERS_FILE": str(file)}).tracing_headers()

    for said in (fault, str(raised.value)):
        assert "is not name=value" in said
        assert "s3cret" not in said


def test_headers_have_one_source() -> None:
    """The environment hides the file of leveret.toml; both at once are refused."""
    [fault] = faults({HEADERS: "a=b", "LEVERET_TRACING__HEADERS_FILE": "x"})

    assert "cannot both be set" in fault
