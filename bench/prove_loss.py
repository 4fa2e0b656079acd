"""The proofs that earlier causes of lost or late deliveries are gone.

Run ``python -m bench.prove_loss [--only NAME,...] [--scale 0.05]``.
It writes ``build/prove-loss.json``, or the file of ``--output``; with ``--only`` or a ``--scale`` below 1
the name gets ``-part``. NAME is a proof or one of its figures. On a second broker ``--suffix _4`` adds its
figures to the same file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.loss import cancelled, clock_steps, destroyed, hang, hang_simulated, parked_look, stranger_store
from bench.prove import Proof, command

PROOFS: Sequence[Proof] = (
    parked_look.PROOF,
    stranger_store.PROOF,
    clock_steps.PROOF,
    hang.PROOF,
    hang_simulated.PROOF,
    destroyed.PROOF,
    cancelled.PROOF,
)

OUTPUT = Path("build/prove-loss.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proofs; 0 only when every figure is ok."""
    return command(PROOFS, OUTPUT, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
