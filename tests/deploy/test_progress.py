"""No script is silent for long: a slow step reports itself, and its exit code comes through."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.data import ROOT

LIMIT_S = 60


def run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script that sources ``scripts/progress.sh``; its stderr is also the file ``err``."""
    script = f'set -eu\n. "{ROOT}/scripts/progress.sh"\n{line}\necho reached'
    with (folder / "err").open("w") as err:
        return subprocess.run(
            ["sh", "-c", script],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )


def test_a_slow_step_reports_itself(tmp_path: Path) -> None:
    """The step ends once its report was written."""
    step = 'sh -c "until grep -q far err; do sleep 0.1; done"'

    done = run(f'while_waiting "setup: packages" {step}', tmp_path)

    assert (done.returncode, done.stdout) == (0, "reached\n")
    assert (tmp_path / "err").read_text() == "setup: packages (2 s so far)\n"


def test_a_fast_step_is_silent_and_its_failure_ends_the_script(tmp_path: Path) -> None:
    """As if the script had called it directly."""
    done = run('while_waiting "setup: packages" sh -c "exit 7"', tmp_path)

    assert (done.returncode, done.stdout) == (7, "")
    assert (tmp_path / "err").read_text() == ""
