"""The books of one worker: each step is one number, a killed process is counted, a lost target shows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.books import CELLS, Books, Origin, Step
from tests.support.flow.books import rest

ENDS = (Step.DELIVERED, Step.PARKED, Step.CANCELLED, Step.STORED, Step.RETURNED)

TARGETS = st.lists(st.tuples(st.sampled_from(Origin), st.sampled_from((*ENDS, None))))
"""Targets by origin, each with its step; None: it is in flight."""


def written(targets: list[tuple[Origin, Step | None]]) -> Books:
    """Books with the entries of *targets*."""
    books = Books()
    for origin, step in targets:
        books.add(origin, Step.OPENED, 1)
        if step is not None:
            books.add(origin, step, 1)
    return books


@given(TARGETS)
def test_targets_that_made_a_step_balance(targets: list[tuple[Origin, Step | None]]) -> None:
    """Owed = delivered + parked + cancelled + waiting + in flight, before and after a kill."""
    books = written(targets)
    assert rest(books.balance()) == 0
    assert books.balance().in_flight == [step for _, step in targets].count(None)

    books.interrupt()

    assert rest(books.balance()) == 0
    assert books.balance().in_flight == 0
    assert books.fault() is None


def test_a_target_without_a_step_is_a_positive_rest() -> None:
    """Its message was acked, and it neither ended nor was stored."""
    books = written([(Origin.OWED, Step.DELIVERED), (Origin.OWED, None)])
    books.add(Origin.OWED, Step.LOST, 1)

    assert rest(books.balance()) == books.balance().lost == 1


def test_a_kill_brings_back_both_kinds() -> None:
    """An event is owed again, and a delivery message waits again."""
    stored = [(Origin.OWED, Step.STORED)] * 3
    books = written([*stored, (Origin.OWED, None), (Origin.WAITING, None), (Origin.WAITING, None)])

    assert books.interrupt() == (1, 2)

    balance = books.balance()
    assert (balance.owed, balance.owed_again) == (4, 1)
    assert (balance.waiting, balance.waiting_again) == (3, 2)


def test_the_books_go_on_in_the_same_memory() -> None:
    """The next process reads what the last one wrote."""
    cells = [0] * CELLS
    Books(cells).add(Origin.OWED, Step.OPENED, 5)
    Books(cells).message_stored()

    balance = Books(cells).balance()
    assert (balance.owed, balance.in_flight, balance.waiting_messages) == (5, 5, 1)


def test_a_command_takes_waiting_targets_out() -> None:
    """An operator cancels two targets of one delivery message."""
    books = written([(Origin.OWED, Step.STORED)] * 2)
    books.message_stored()

    books.cancelled_waiting(targets=2, messages=1)

    balance = books.balance()
    assert (balance.waiting, balance.cancelled, balance.waiting_messages, rest(balance)) == (0, 2, 0, 0)


def test_numbers_that_no_worker_wrote_have_a_fault() -> None:
    """A negative count, or more ends than targets."""
    assert Books([-1] + [0] * (CELLS - 1)).fault() is not None
    assert Books([0, 1] + [0] * (CELLS - 2)).fault() is not None
