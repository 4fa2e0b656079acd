"""Calls that the AMQP library ends when this worker closes their channel."""

from __future__ import annotations

import asyncio

import pytest

from consumer.edges.broker.connection.connect import closable


@pytest.mark.parametrize("end", [asyncio.CancelledError(), Exception()], ids=["cancelled", "bare"])
def test_the_end_of_a_call_is_an_error_of_the_connection(end: BaseException) -> None:
    """Fault 98: the task that made the call goes on."""

    async def call() -> None:
        with closable():
            raise end

    with pytest.raises(ConnectionAbortedError):
        asyncio.run(call())


def test_other_errors_are_passed_on() -> None:
    """A bug stays a bug."""
    with pytest.raises(ValueError, match="a bug"), closable():
        raise ValueError("a bug")


async def test_a_task_that_is_cancelled_ends() -> None:
    """The cancellation is meant for the task."""

    async def call() -> None:
        with closable():
            await asyncio.Event().wait()

    task = asyncio.create_task(call())
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
