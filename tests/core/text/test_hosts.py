"""Places that listen are shown as URLs that work on this machine."""

from __future__ import annotations

import pytest

from consumer.core.text.hosts import url_of


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("localhost", "http://localhost:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),  # noqa: S104 - a text, to which nothing is bound
        ("::1", "http://[::1]:80"),
        ("::", "http://[::1]:80"),
        ("2001:db8::7", "http://[2001:db8::7]:80"),
    ],
)
def test_a_place_is_shown_as_a_url(host: str, shown: str) -> None:
    """An IPv6 address has brackets; a wildcard becomes the loopback address of its kind."""
    assert url_of("http", host, 80) == shown
