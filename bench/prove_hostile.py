"""The proofs about attacks by strangers.

Run ``python -m bench.prove_hostile [--only NAME,...] [--scale 0.05]``.
It writes ``build/prove-hostile.json``, or the file of ``--output``; with ``--only`` or a ``--scale`` below 1
the name gets ``-part``. NAME is a proof or one of its figures. On a second broker ``--suffix _4`` adds its
figures to the same file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.hostile import clients, forgery, handles, loop, memory, servers, stalled_log
from bench.prove import Proof, command

PROOFS: Sequence[Proof] = (
    loop.PROOF,
    handles.PROOF,
    memory.PROOF,
    forgery.PROOF,
    clients.PROOF,
    servers.PROOF,
    stalled_log.PROOF,
)

OUTPUT = Path("build/prove-hostile.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proofs; 0 only when every figure is ok."""
    return command(PROOFS, OUTPUT, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
