"""The proofs of the HTTP API and of the pages: a night, a fuzzer, foreign tenants, hostile text, speed.

Run ``python -m bench.prove_operate [--only NAME,...] [--scale 0.05]``.
It writes ``build/prove-operate.json``, or the file of ``--output``; with ``--only`` or a ``--scale`` below 1
the name gets ``-part``. NAME is a proof or one of its figures.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.operate import accessible, apply, delivery_cost, foreign, fuzz, night, page_times, scripts
from bench.prove import Proof, command

PROOFS: Sequence[Proof] = (
    night.PROOF,
    fuzz.PROOF,
    foreign.PROOF,
    scripts.PROOF,
    accessible.PROOF,
    page_times.PROOF,
    apply.PROOF,
    delivery_cost.PROOF,
)

OUTPUT = Path("build/prove-operate.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proofs; 0 only when every figure is ok."""
    return command(PROOFS, OUTPUT, __doc__, sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
