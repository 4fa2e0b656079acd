"""The proofs of the core: ``python -m bench.prove_core [--only NAME,...] [--scale 0.05]``.

It writes ``build/prove-core.json``, or the file of ``--output``; with ``--only`` or a ``--scale`` below 1 the
name gets ``-part``. ``--broker-version 4.0.`` ends the run when the server is another. NAME is a proof
(``ledger``) or one of its figures (``retry_early``).
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import prove
from bench.core import broker_kill, idle_disk, kills, ledger, slow_sibling, term, throughput, timing
from bench.load import quiet
from bench.prove import Bench, Proof

PROOFS: Sequence[Proof] = (
    ledger.PROOF,
    kills.PROOF,
    broker_kill.PROOF,
    term.PROOF,
    timing.PROOF,
    throughput.PROOF,
    slow_sibling.PROOF,
    idle_disk.PROOF,
)

OUTPUT = Path("build/prove-core.json")


def chosen(names: Sequence[str]) -> list[Proof]:
    """Return the proofs that *names* name, by their own name or by a figure's; all for none.

    Raises:
        SystemExit: a name is unknown (exit code 2).
    """
    if not names:
        return list(PROOFS)
    picked = {
        name: [p for p in PROOFS if name == p.name or name in {g.name for g in p.goals}] for name in names
    }
    unknown = [name for name, proofs in picked.items() if not proofs]
    if unknown:
        print(
            f"no such proof: {', '.join(unknown)}; take {', '.join(p.name for p in PROOFS)}", file=sys.stderr
        )
        raise SystemExit(2)
    return [proof for proof in PROOFS if any(proof in proofs for proofs in picked.values())]


def interrupted(*_: object) -> None:
    """Turn SIGTERM into an exception, so that everything that was started is freed."""
    raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proofs; 0 only when every figure is ok."""
    parser = argparse.ArgumentParser(prog="python -m bench.prove_core", description=__doc__)
    parser.add_argument("--only", default="", help="proofs or figures, separated by commas")
    parser.add_argument("--scale", type=float, default=1.0, help="shrink every count, for a smoke")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="file for the figures")
    parser.add_argument("--broker-version", default="", help="what the server's version must begin with")
    parser.add_argument("--keep", action="store_true", help="keep the logs")
    options = parser.parse_args(arguments)
    proofs = chosen([name for name in options.only.split(",") if name])
    signal.signal(signal.SIGTERM, interrupted)
    quiet()
    root = Path(tempfile.mkdtemp(prefix="leveret-prove-"))
    try:
        return prove.run(
            proofs,
            bench=Bench(folder=root / "run", scale=options.scale, broker_version=options.broker_version),
            output=options.output,
            complete=not options.only and options.scale >= 1,
        )
    finally:
        if options.keep:
            print(f"logs: {root}", file=sys.stderr)
        else:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
