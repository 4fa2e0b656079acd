"""Registration checks of a URL, before any name look-up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.text.urls import URL_MAX, parse_url, show_url
from tests.support.data import DATA

VECTORS: list[dict[str, Any]] = json.loads((DATA / "urls.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: repr(row["url"])[:48])
def test_every_vector_is_judged_as_written(row: dict[str, Any]) -> None:
    """Fault 26: each URL of the vectors is accepted or refused as the vector requires."""
    if row["ok"]:
        assert parse_url(row["url"]).text
        return
    with pytest.raises(ValueError, match=r"^(has|contains|is|must) ") as refused:
        parse_url(row["url"])
    assert row["url"] not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("https://HOOK.Example/Path", "https://hook.example/Path"),
        ("HTTPS://hook.example:443", "https://hook.example/"),
        ("https://hook.example:8443/a/b?c=d&e=%20f", "https://hook.example:8443/a/b?c=d&e=%20f"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://[2606:4700:4700:0::1111]/x", "https://[2606:4700:4700::1111]/x"),
        ("http://my_service:8080/x", "http://my_service:8080/x"),
        ("https://hook.example./x", "https://hook.example./x"),
        ("https://hook.example?x=1", "https://hook.example/?x=1"),
        ("https://hook.example:/x:y@z", "https://hook.example/x:y@z"),
    ],
)
def test_a_url_has_one_normal_form(text: str, normal: str) -> None:
    """Every spelling of an endpoint's URL has the same normal form, so a tenant cannot register it twice."""
    assert parse_url(text).text == normal
    assert parse_url(normal).text == normal


@pytest.mark.parametrize(
    "url",
    [
        "https://pаypal.example/",  # a Cyrillic letter among Latin ones
        "https://рауре.example/",  # Cyrillic throughout
        "https://hook.example/ü",
        "https://hook.example/%zz",
        "https://" + "a." * 127 + "example/",
        "https://hook.example/" + "a" * (URL_MAX - len("https://hook.example/") + 1),
        "https://hook.example\u00a0/",
        "https://[::1]x/",
        "https://[127.0.0.1]/",
    ],
)
def test_more_that_no_webhook_may_go_to(url: str) -> None:
    """Fault 26: look-alike hosts, raw non-ASCII, broken escapes and one character too many are refused."""
    with pytest.raises(ValueError, match=r"^(has|contains|is|must) "):
        parse_url(url)


@pytest.mark.parametrize("url", ["https://user:pw@h.example/", "https://user@h.example/"])
def test_credentials_in_a_url_are_named_as_such(url: str) -> None:
    """Fault 26: the error explains where user name and password belong."""
    with pytest.raises(ValueError, match="user name or password; put credentials into a header"):
        parse_url(url)


def test_the_longest_url_is_taken() -> None:
    """Fault 26: a URL of exactly the longest length is accepted."""
    url = "https://hook.example/".ljust(URL_MAX, "a")

    assert parse_url(url).text == url


@given(st.text(max_size=80))
def test_any_text_is_judged_without_another_error(text: str) -> None:
    """Fault 26: for any text the check either accepts it or raises ValueError."""
    for url in (text, f"https://{text}/", f"https://hook.example/{text}"):
        try:
            parsed = parse_url(url)
        except UnicodeError:
            pytest.fail("an error of the codec came through")
        except ValueError:
            continue
        assert parsed.text.isascii()
        assert parse_url(parsed.text) == parsed


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hook.example/a?token=x#y", "https://hook.example/a"),
        ("https://u:p@hook.example:1/a/@b", "https://hook.example:1/a/@b"),
        ("https://hook.example?token=x", "https://hook.example"),
        ("/login?token=x", "/login"),
        ("/a@b/c#d", "/a@b/c"),
        ("?token=x", ""),
        ("//u:p@hook.example/a?b", "//hook.example/a"),
        ("https:u:p@hook.example/a", "https:hook.example/a"),
        (r"https:\\u:p@hook.example\a?b", r"https:\\hook.example\a"),
        (" https://u:p@hook.example/a", " https://hook.example/a"),
        ("", ""),
    ],
)
def test_a_shown_url_has_no_secret_parts(url: str, shown: str) -> None:
    """A shown URL has no query and no userinfo; this also applies to the target of a redirect (fault 36)."""
    assert show_url(url) == shown
