"""The proofs of the first hour: ``python -m bench.prove_newcomer [--only NAME,...] [--scale 0.05]``.

It writes ``build/prove-newcomer.json``, or the file of ``--output``; with ``--only`` or a ``--scale`` below 1
the name gets ``-part``. NAME is a proof (``idle``) or one of its figures (``rss_idle_mb``).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.newcomer import apply, demo, idle, panels, store_outage, tutorial
from bench.prove import Proof, command

PROOFS: Sequence[Proof] = (
    demo.PROOF,
    tutorial.PROOF,
    apply.PROOF,
    panels.PROOF,
    store_outage.PROOF,
    idle.PROOF,
)

OUTPUT = Path("build/prove-newcomer.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proofs; 0 only when every figure is ok."""
    return command(PROOFS, OUTPUT, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
