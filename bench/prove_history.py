"""The proofs of the history and of parked entries: cost, truth, retention, trace, listings, replays.

Run ``python -m bench.prove_history [--only NAME,...] [--scale 0.05]``.
It writes ``build/prove-history.json``, or the file of ``--output``; with ``--only`` or a ``--scale`` below 1
the name gets ``-part``. NAME is a proof or one of its figures.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.history import (
    cost,
    faithful,
    parked_account,
    parked_history,
    parked_list,
    retention,
    seed_costs,
    seed_rows,
    store_gone,
    trace,
)
from bench.prove import Proof, command

PROOFS: Sequence[Proof] = (
    faithful.PROOF,
    store_gone.PROOF,
    retention.PROOF,
    trace.PROOF,
    parked_list.PROOF,
    parked_account.PROOF,
    parked_history.PROOF,
    seed_rows.PROOF,
    seed_costs.PROOF,
    cost.PROOF,
)

ON_ANOTHER_BROKER: Sequence[Proof] = (parked_account.PROOF,)
"""The proofs of a run with ``--suffix``, which adds the figures of another RabbitMQ to the same file."""

OUTPUT = Path("build/prove-history.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proofs; 0 only when every figure is ok."""
    given = sys.argv[1:] if arguments is None else arguments
    proofs = ON_ANOTHER_BROKER if "--suffix" in given else PROOFS
    return command(proofs, OUTPUT, __doc__, given)


if __name__ == "__main__":
    sys.exit(main())
