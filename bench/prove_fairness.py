"""The proofs of fairness: ``python -m bench.prove_fairness [--only NAME,...] [--scale 0.05]``.

It writes ``build/prove-fairness.json``, or the file of ``--output``; with ``--only`` or a ``--scale`` below 1
the name gets ``-part``. NAME is a proof (``flood``) or one of its figures (``flood_cost_ratio``).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.fairness import evenness, flood, rates, schedule, storm
from bench.prove import Proof, command

PROOFS: Sequence[Proof] = (
    schedule.PROOF,
    rates.WEIGHTS_PROOF,
    rates.ONE_PROOF,
    evenness.PROOF,
    storm.PROOF,
    flood.PROOF,
)

OUTPUT = Path("build/prove-fairness.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proofs; 0 only when every figure is ok."""
    return command(PROOFS, OUTPUT, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
