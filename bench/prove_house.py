"""The proofs of the house: structure, references, cost against the state before, the suite under load.

Run ``python -m bench.prove_house [--only NAME,...] [--scale 0.05]``.
It writes ``build/prove-house.json``; with ``--only`` or a ``--scale`` below 1 the name gets ``-part``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.house import reasons, structure, suite, throughput
from bench.prove import Proof, command

PROOFS: Sequence[Proof] = (structure.PROOF, reasons.PROOF, throughput.PROOF, suite.PROOF)

OUTPUT = Path("build/prove-house.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proofs; 0 only when every figure is ok."""
    return command(PROOFS, OUTPUT, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
