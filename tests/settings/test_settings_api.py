"""The section [api]: safe by default, and another address only with TLS or a proxy."""

from __future__ import annotations

import pytest

from consumer.settings import load_settings
from tests.support.settings import faults


def test_the_default_is_loopback() -> None:
    """`leveret run` serves no API, and `leveret serve` only this machine."""
    api = load_settings({}).api

    assert api.listen is None
    assert api.place() == ("127.0.0.1", 8090)


@pytest.mark.parametrize("place", ["0.0.0.0:8090", "[::]:8090", "10.0.0.1:80", "api.example:80"])
def test_another_address_needs_tls_or_a_proxy(place: str) -> None:
    """The error names the setting and the remedies."""
    [line] = faults({"LEVERET_API__LISTEN": place})

    assert "api.listen" in line
    assert "api.tls_certificate" in line
    assert "api.behind_proxy" in line
    assert load_settings({"LEVERET_API__LISTEN": place, "LEVERET_API__BEHIND_PROXY": "true"}).api.listen
    tls = {"LEVERET_API__TLS_CERTIFICATE": "c.pem", "LEVERET_API__TLS_KEY": "k.pem"}
    assert load_settings({"LEVERET_API__LISTEN": place, **tls}).api.uses_tls


def test_a_certificate_needs_its_key() -> None:
    """One without the other is a fault."""
    [line] = faults({"LEVERET_API__TLS_KEY": "k.pem"})

    assert "belong together" in line


@pytest.mark.parametrize("bad", ["8090", "localhost", "localhost:99999", "a b:1"])
def test_a_place_is_host_and_port(bad: str) -> None:
    """Anything else is refused."""
    [line] = faults({"LEVERET_API__LISTEN": bad})

    assert "HOST:PORT" in line
