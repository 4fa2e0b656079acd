"""The proofs of what an operator sees: ``python -m bench.prove_observe [--only NAME,...] [--scale 0.05]``.

It writes ``build/prove-observe.json``, or the file of ``--output``; with ``--only`` or a ``--scale`` below 1
the name gets ``-part``. NAME is a proof or one of its figures. ``--only troubles --case hangs`` goes through
one trouble alone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.observe import conservation, doctor, false_alerts, observability_cost, otel_cost, panels
from bench.observe.troubles import proof as troubles
from bench.prove import Proof, command

PROOFS: Sequence[Proof] = (
    *(doctor.PROOF, panels.PROOF, conservation.PROOF),
    troubles.PROOF,
    *(otel_cost.PROOF, observability_cost.PROOF),
    false_alerts.PROOF,
)

OUTPUT = Path("build/prove-observe.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proofs; 0 only when every figure is ok."""
    return command(PROOFS, OUTPUT, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
