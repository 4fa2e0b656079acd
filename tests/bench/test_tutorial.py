"""Each block of the tutorial works as written, and the proof counts a block that fails."""

from __future__ import annotations

from pathlib import Path

from bench.newcomer.tutorial import BLOCKS, TUTORIAL, blocks, walk


def test_every_block_of_the_tutorial_comes_to_its_end(tmp_path: Path) -> None:
    """Every command block of the tutorial is run, in a fresh folder."""
    found = walk(TUTORIAL.read_text("utf-8"), tmp_path)

    assert found.ended == found.blocks >= BLOCKS, found.said[-3000:]
    assert "ord_2_paid" in found.said, "the replay arrived and was shown"


def test_a_block_that_fails_is_counted(tmp_path: Path) -> None:
    """A command that fails, even in the middle of a block, ends the walk there."""
    page = "```sh\necho one\n```\n\n```sh\nfalse\necho two\n```\n\n```sh\necho three\n```\n"

    found = walk(page, tmp_path)

    assert (len(blocks(page)), found.blocks, found.ended) == (3, 3, 1)
    assert "two" not in found.said
