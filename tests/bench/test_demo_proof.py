"""The proof of the demo: the figures that it reads from the output, and a newcomer's environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.newcomer.demo import PROOF, account, newcomer


def test_the_figures_and_goals_are_those_of_the_issue() -> None:
    """demo_exit and demo_unaccounted, both 0."""
    assert {goal.name: goal.text for goal in PROOF.goals} == {"demo_exit": "0", "demo_unaccounted": "0"}


def test_the_account_is_the_last_word_of_the_demo() -> None:
    """Only a whole line counts; a demo without that line has no figure."""
    assert account("x\nunaccounted: 3 of 40 deliveries\ndemo: ending\n") == (3, 40)
    with pytest.raises(ValueError, match="printed no account"):
        account("demo: unaccounted: 0 of 40 deliveries and more\n")


def test_a_newcomer_has_no_caches_and_nothing_of_ours(tmp_path: Path) -> None:
    """Empty HOME, no pip cache, none of our variables, not our interpreter; network settings stay."""
    ours = str(Path(sys.executable).parent)
    environ = {
        "PATH": f"{ours}:/usr/bin",
        "HOME": "/home/somebody",
        "LEVERET_AMQP_URL": "amqp://production/",
        "VIRTUAL_ENV": "/x",
        "XDG_CACHE_HOME": "/x",
        "MAKEFLAGS": "-n",
        "PIP_CERT": "/etc/cert",
    }

    assert newcomer(environ, tmp_path) == {
        "PATH": "/usr/bin",
        "HOME": str(tmp_path),
        "PIP_NO_CACHE_DIR": "1",
        "PIP_CERT": "/etc/cert",
    }
