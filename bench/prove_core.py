"""The proofs of the core: ``python -m bench.prove_core [--only NAME,...] [--scale 0.05]``.

It writes ``build/prove-core.json``, or the file of ``--output``; with ``--only`` or a ``--scale`` below 1 the
name gets ``-part``. ``--broker-version 4.0.`` ends the run when the server is another. NAME is a proof
(``ledger``) or one of its figures (``retry_early``).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.core import (
    broker_kill,
    idle_disk,
    kills,
    ledger,
    restarts,
    slow_sibling,
    term,
    throughput,
    timing,
)
from bench.prove import Proof, command

PROOFS: Sequence[Proof] = (
    ledger.PROOF,
    kills.PROOF,
    restarts.PROOF,
    broker_kill.PROOF,
    term.PROOF,
    timing.PROOF,
    throughput.PROOF,
    slow_sibling.PROOF,
    idle_disk.PROOF,
)

OUTPUT = Path("build/prove-core.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proofs; 0 only when every figure is ok."""
    return command(PROOFS, OUTPUT, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
