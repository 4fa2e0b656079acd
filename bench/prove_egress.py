"""The proofs of sending: ``python -m bench.prove_egress [--only NAME,...] [--scale 0.05]``.

It writes ``build/prove-egress.json``, or the file of ``--output``; with ``--only`` or a ``--scale`` below 1
the name gets ``-part``. NAME is a proof (``leaks``) or one of its figures (``guard_escapes``).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.egress import deadlines, escapes, leaks, ratio, rows
from bench.prove import Proof, command

PROOFS: Sequence[Proof] = (rows.PROOF, escapes.PROOF, deadlines.PROOF, ratio.PROOF, leaks.PROOF)

OUTPUT = Path("build/prove-egress.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proofs; 0 only when every figure is ok."""
    return command(PROOFS, OUTPUT, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
