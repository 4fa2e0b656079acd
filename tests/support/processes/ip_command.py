"""Run ``ip``, which lays out network namespaces and the cables between them."""

from __future__ import annotations

import subprocess


def ip(*arguments: str) -> None:
    """Run ``ip``.

    Raises:
        RuntimeError: it failed; the text names the command and the reason.
    """
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}; this needs root")
