"""`leveret doctor` among faults: each of them is put into surroundings that are well otherwise.

A fault counts as missed unless one line of the right check and level names it with a remedy, and the exit
code is 1 for a fault and 0 for a warning. The same line must be absent without the fault. No output of any
run may contain a secret.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from bench.broker import Broker
from bench.observe import faults, store_faults
from bench.observe.faults import Fault
from bench.observe.ground import Diagnosis, Ground, standing
from bench.prove import Bench, Goal, Measured, Proof

FAULTS: Sequence[Fault] = (*faults.FAULTS, *store_faults.FAULTS)
LEAST = 15
AT_ONCE = 4  #: faults of settings and files at the same time

GOALS = (Goal(name="doctor_missed", text="0", unit="faults", n=LEAST),)


def line_of(fault: Fault, found: Diagnosis) -> str | None:
    """Return the line of *found* that names the fault; None if there is none, or the exit code is wrong."""
    code = 1 if fault.level == "fault" else 0
    return found.naming(fault.check, fault.level, fault.words) if found.code == code else None


async def diagnosed(ground: Ground, fault: Fault) -> Diagnosis:
    """Put *fault* in, run the doctor, and take it out."""
    async with fault.make(ground) as settings:
        return await ground.doctor(settings, fault.wrap)


def small() -> Sequence[Fault]:
    """Return the first fault of each check that leaves the node as it is: enough for the test suite."""
    first: dict[str, Fault] = {}
    for fault in FAULTS:
        if not fault.own_broker:
            first.setdefault(fault.check, fault)
    return list(first.values())


async def prove(bench: Bench) -> Sequence[Measured]:
    """Put in every fault; on a broker that tests share, only a few."""
    is_small = bool(bench.amqp_url)
    chosen = small() if is_small else FAULTS
    async with Broker(bench) as broker, standing(bench.folder, broker, is_inside=is_small) as ground:
        healthy = await ground.doctor(ground.settings())
        bench.note("doctor_without_fault", healthy.troubles())
        found = await _all_diagnosed(ground, chosen)
    missed, lines = [], dict[str, str]()
    for fault in chosen:
        line = line_of(fault, found[fault.name])
        if line is None or healthy.naming(fault.check, fault.level, fault.words) is not None:
            missed.append(fault.name)
            each = found[fault.name]
            bench.note(f"doctor_missed_{fault.name}", {"code": each.code, "rows": each.troubles()})
        else:
            lines[fault.name] = line
    runs = (healthy, *found.values())
    leaks = sum(any(secret and secret in run.output for secret in ground.secrets) for run in runs)
    bench.notes["doctor_lines"] = lines
    bench.note("doctor_faults", len(chosen))
    slowest = max(found, key=lambda name: found[name].seconds)
    bench.note("doctor_slowest", {"fault": slowest, "seconds": round(found[slowest].seconds, 1)})
    bench.note("doctor_without_fault_s", round(healthy.seconds, 1))
    bench.note("doctor_leaks", leaks)
    valid = healthy.code == 0 and leaks == 0
    return [Measured(name="doctor_missed", value=len(missed), n=len(chosen), valid=valid)]


async def _all_diagnosed(ground: Ground, faults: Sequence[Fault]) -> Mapping[str, Diagnosis]:
    """Put in each fault by its name: those of settings and files beside each other, the others alone."""
    found: dict[str, Diagnosis] = {}
    turns = asyncio.Semaphore(1 if ground.is_inside else AT_ONCE)

    async def one(fault: Fault) -> None:
        async with turns:
            found[fault.name] = await diagnosed(ground, fault)

    await asyncio.gather(*(one(fault) for fault in faults if not (fault.alone or fault.own_broker)))
    for fault in faults:
        if fault.alone or fault.own_broker:
            await one(fault)
    return found


PROOF = Proof("doctor", GOALS, prove)
