"""The proofs of sick endpoints: ``python -m bench.prove_outage [--only NAME,...] [--scale 0.05]``.

It writes ``build/prove-outage.json``, or the file of ``--output``; with ``--only`` or a ``--scale`` below 1
the name gets ``-part``. NAME is a proof (``outage``) or one of its figures (``down_requests``).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.outage import four_workers, neighbours, outage, policies, restart, retry_after, slow
from bench.prove import Proof, command

PROOFS: Sequence[Proof] = (
    policies.PROOF,
    outage.PROOF,
    neighbours.PROOF,
    slow.PROOF,
    retry_after.PROOF,
    restart.PROOF,
    four_workers.PROOF,
)

OUTPUT = Path("build/prove-outage.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proofs; 0 only when every figure is ok."""
    return command(PROOFS, OUTPUT, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
