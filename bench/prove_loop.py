"""The proofs of the closed loop: messages that do not come back are seen, in a cluster too.

Run ``python -m bench.prove_loop [--only NAME,...] [--scale 0.05]``. It needs root.
It writes ``build/prove-loop.json``, or the file of ``--output``; with ``--only`` or a ``--scale`` below 1
the name gets ``-part``. NAME is a proof or one of its figures. On a second broker ``--suffix _4`` adds its
figures to the same file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.loop import beat, broker_back, cluster_faults, idle_quorum, missing, quorum, stuck_queue
from bench.prove import Proof, command

PROOFS: Sequence[Proof] = (
    cluster_faults.PROOF,
    quorum.PROOF,
    stuck_queue.PROOF,
    missing.PROOF,
    idle_quorum.PROOF,
    beat.PROOF,
    broker_back.PROOF,
)

OUTPUT = Path("build/prove-loop.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proofs; 0 only when every figure is ok."""
    return command(PROOFS, OUTPUT, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
