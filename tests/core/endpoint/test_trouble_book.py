"""The waiting deliveries of the book, while an operator kicks or cancels some of them."""

from __future__ import annotations

import pytest

from consumer.core.endpoint.trouble_book import TroubleBook

NOW = 1_700_000_000.0
SHOP, OTHER = "sub_shop", "sub_other"


@pytest.fixture
def book() -> TroubleBook:
    """Return a book with ten waiting deliveries of one subscription, and one of another."""
    book = TroubleBook()
    book.begin({}, NOW)
    for each, count in ((SHOP, 10), (OTHER, 1)):
        book.failed(each, "http_5xx")
        for _ in range(count):
            wait(book, each)
    return book


def wait(book: TroubleBook, subscription: str) -> None:
    """Let one more delivery wait for half a minute."""
    book.waits(subscription, NOW + 30, NOW)


def waiting(book: TroubleBook) -> tuple[int, int]:
    """Return how many deliveries of the subscription wait, and how many of all."""
    return book.waiting_of(SHOP, NOW), book.waiting(NOW)


def test_until_they_have_left_they_wait(book: TroubleBook) -> None:
    """A kick that never ends, as its command was killed, changes nothing."""
    book.leaves(SHOP)

    assert waiting(book) == (10, 11)


def test_a_whole_kick_takes_all_that_waited_before(book: TroubleBook) -> None:
    """However many another worker had stored; those that its endpoint holds again meanwhile stay."""
    book.leaves(SHOP)
    for _ in range(3):
        wait(book, SHOP)

    book.left(SHOP, 99, all_left=True)

    assert waiting(book) == (3, 4)


def test_a_part_takes_its_number(book: TroubleBook) -> None:
    """A kick that broke off, or one of a single event: the others still wait."""
    book.leaves(SHOP)
    book.left(SHOP, 4, all_left=False)
    assert waiting(book) == (6, 7)

    book.left(SHOP, 1, all_left=False)
    assert waiting(book) == (5, 6)


def test_a_whole_kick_of_another_workers_deliveries_takes_none(book: TroubleBook) -> None:
    """None of this worker's waited as it began, and those that its endpoint holds since then wait."""
    book.freed(SHOP)
    book.leaves(SHOP)
    wait(book, SHOP)

    book.left(SHOP, 10, all_left=True)
    book.left("sub_unknown", 10, all_left=True)

    assert waiting(book) == (1, 2)


def test_a_breaker_that_closes_frees_those_too_that_are_leaving(book: TroubleBook) -> None:
    """They come back soon either way."""
    book.leaves(SHOP)
    wait(book, SHOP)

    book.freed(SHOP)

    assert waiting(book) == (0, 1)
