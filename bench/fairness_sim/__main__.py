"""Run the simulation, print the table, write the picture."""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.fairness_sim.cluster import Cluster, Shape
from bench.fairness_sim.load import CLASSES, TenantClass, arrivals, class_of
from bench.fairness_sim.picture import Waits, svg, table, waits_of

SECONDS = 90.0
COUNTED_FROM_S = 30.0  #: the floods begin at 10 s, and the noise rule takes its ten seconds
SEED = 6
OUTPUT = Path("docs/fairness.svg")
TITLE = "1,000 tenants, 20 workers, ten of the tenants flood: 155 % of the workers' capacity"


def simulate(
    classes: Sequence[TenantClass], shape: Shape, seconds: float = SECONDS, since_s: float = COUNTED_FROM_S
) -> Mapping[str, Mapping[str, Waits]]:
    """Return the waits of each class, in one shared queue and by the product's rules.

    Args:
        classes: The tenants.
        shape: The workers.
        seconds: How long it goes on.
        since_s: Events published before that are not counted.
    """
    found: dict[str, dict[str, Waits]] = defaultdict(dict)
    for way, fair in (("one shared queue", False), ("Leveret", True)):
        cluster = Cluster(shape, fair=fair)
        cluster.run(arrivals(classes, seconds, SEED))
        by_class: dict[str, list[float]] = defaultdict(list)
        for at, tenant, wait_s in (*cluster.waits, *cluster.unstarted(seconds)):
            if at >= since_s:
                by_class[class_of(tenant)].append(wait_s)
        for kind in classes:
            found[kind.name][way] = waits_of(by_class[kind.name])
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where the picture goes")
    chosen = parser.parse_args(arguments)
    found = simulate(CLASSES, Shape())
    print(table(found), end="")
    chosen.output.write_text(svg(found, TITLE), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
