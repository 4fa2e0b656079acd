"""Run one worker: signals, the routines that run side by side, the drain, the exit code.

Data flow: Settings -> :class:`consumer.daemon.build.Worker` -> routines until a signal -> drain -> exit code.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import uvloop

from consumer.core.errors import LeveretError
from consumer.core.text.hosts import url_of
from consumer.daemon.api_process import ApiProcess
from consumer.daemon.build import Run, Worker
from consumer.daemon.readiness import API_STARTS
from consumer.daemon.start_report import StartReport
from consumer.edges.management.reach import reach_broker
from consumer.edges.process import logs
from consumer.edges.process.certificates import api_certificate, broker_certificate, read_ends
from consumer.edges.process.startup import raise_handle_limit
from consumer.settings import Settings
from consumer.tasks import TaskEnded, end, error_of

BROKER_STARTS = "the private broker is starting"
NEW_OBJECTS = 25_000  #: between two passes of the collector
FORCED_FLUSH_S = 0.2  #: the longest that a second signal waits for whoever reads the log


def run(settings: Settings, how: Run) -> int:
    """Run the daemon until SIGTERM or SIGINT; return the exit code."""
    logs.configure(settings.log.level, settings.log.format)
    raise_handle_limit()
    return uvloop.run(_serve(settings, how))


async def _serve(settings: Settings, how: Run) -> int:
    start = StartReport()
    reach = await start.step(BROKER_STARTS, asyncio.to_thread(reach_broker, settings))
    return await Life(Worker(settings, how, reach), start).run()


def _tune_collector() -> None:
    """Let the cyclic collector run rarely, and never over objects that live as long as the daemon.

    The objects of the messages in hand come and go in bursts of over 10,000, and a pass for each burst took
    a twentieth of the time. A pass over 50,000 stopped the loop for 15 to 50 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 5, 200)


class Life:
    """The life of one worker, from its start to its exit code."""

    def __init__(self, worker: Worker, start: StartReport | None = None) -> None:
        self._worker = worker
        self._start = StartReport() if start is None else start
        self._observe = worker.outside.observe
        self._api: ApiProcess | None = None
        self._is_asked = False  #: since the first signal
        self._forcing: asyncio.Task[None] | None = None  #: since the second signal

    async def run(self) -> int:
        """Serve until a signal; return 0 after a clean drain, 1 when it cannot start or a routine ended."""
        worker, outside, settings = self._worker, self._worker.outside, self._worker.settings
        self._watch_signals()
        _tune_collector()
        port = await worker.health.start(settings.listen_host, settings.listen_port)
        outside.sender.guard.protect(settings.listen_host, port)
        if settings.api.listen is not None:
            shown = partial(self._read_certificate, api_certificate(settings))
            self._api = ApiProcess.start(settings, worker.stopping, shown)
        self._report_start(port)
        await self._read_certificate(broker_certificate(settings))
        routines = (
            *self._routines(),
            ("start", self._start.run(worker.readiness.unready, self._urls(port))),
        )
        serving = {name: asyncio.create_task(step, name=name) for name, step in routines}
        stopping = asyncio.create_task(worker.stopping.wait())
        await asyncio.wait({stopping, *serving.values()}, return_when=asyncio.FIRST_COMPLETED)
        ended = self._report_ended(serving.values())
        worker.stopping.set()
        if not serving["broker"].done():
            worker.consume_gate.lock()
            await worker.drain().run()
            ended += self._report_ended([task for task in serving.values() if task not in ended])
        code = 1 if ended else 0
        await end([*serving.values(), stopping])
        if self._api is not None:
            await self._api.stop()
        await worker.flow.store_sync.finish()
        if outside.history is not None:
            await outside.history.finish()
        if outside.settled is not None:
            await outside.settled.close()
        if outside.tracing is not None:
            await outside.tracing.exporter.finish()
        await outside.sender.close()
        await worker.health.stop()
        self._observe.settle_faults(inf)
        self._observe.said("daemon.stopped", code=code)
        return code

    def _urls(self, port: int) -> Mapping[str, str]:
        """Return the addresses of this worker, by what they serve."""
        place = url_of("http", self._worker.settings.listen_host, port)
        urls = {"health": f"{place}/readyz", "metrics": f"{place}/metrics"}
        return urls if self._api is None else {**urls, "api": self._api.url}

    async def _read_certificate(self, files: Mapping[str, Path]) -> None:
        """Read a certificate once for each process that shows it, which ignores later changes."""
        self._observe.certificates_read(*await asyncio.to_thread(read_ends, files))

    def _report_start(self, port: int) -> None:
        settings, observe = self._worker.settings, self._observe
        place = {"home": str(settings.home), "store": self._worker.outside.store.where}
        observe.said("daemon.started", pid=os.getpid(), host=settings.listen_host, port=port, **place)
        if settings.sending.mode == "dry":
            observe.warned("sending.dry")
        if settings.egress.allow or settings.egress.allow_http:
            observe.warned(
                "egress.open",
                allow=[str(n) for n in settings.egress.allow],
                allow_http=settings.egress.allow_http,
            )

    # routines

    def _routines(self) -> Sequence[tuple[str, Coroutine[Any, Any, None]]]:
        """Return what runs side by side until the end, by name."""
        worker, flow, history = self._worker, self._worker.flow, self._worker.outside.history
        settled, tracing = worker.outside.settled, worker.outside.tracing
        kept = () if history is None else (("history", history.run()),)
        looked_up = () if settled is None else (("settled", settled.run()),)
        traced = () if tracing is None else (("tracing", tracing.exporter.run()),)
        return (
            *kept,
            *looked_up,
            *traced,
            ("broker", worker.edge.run()),
            ("gate", self._open()),
            ("overflow", flow.dead_letters.run()),
            ("spill", flow.reroute.run()),
            ("sharing", flow.sharing.run()),
            ("store", flow.store_sync.run()),
            ("record", worker.outside.record.run()),
            ("gauges", worker.gauges.run()),
            ("agreement", flow.agreement.run()),
            ("ops", flow.operator_events.run()),
            ("log", logs.flush_always()),
            ("pressure", worker.pressure.run()),
            ("replay jobs", flow.replay_jobs.run()),
            ("parked sizes", flow.parked_sizes.run()),
            ("slow probe", flow.slow_probe.run()),
            ("returns", flow.returns.run(worker.sees_returns)),
        )

    async def _open(self) -> None:
        """Take nothing before the subscriptions are known: every event would count as unmatched."""
        worker, flow = self._worker, self._worker.flow
        await flow.store_sync.loaded.wait()
        if self._api is not None:
            worker.readiness.awaited.append(API_STARTS)
            await self._api.serving()
            worker.readiness.awaited.clear()
        records = worker.outside.store.records
        try:
            states, healths = await records.endpoint_states(), await records.healths()
            flow.endpoints.prior.remember(states, healths)
            flow.endpoints.prior.remember_holds(await records.holds())
        except (LeveretError, OSError) as error:  # without it a worker learns from its own failures
            self._observe.store_failed("read", error)
        worker.consume_gate.open()
        await worker.consume_gate.run()

    def _report_ended(self, serving: Iterable[asyncio.Task[None]]) -> list[asyncio.Task[None]]:
        """Report and return the routines that ended, by whatever cause; a stop may let one return."""
        ended = []
        for task in [task for task in serving if task.done()]:
            error = error_of(task)
            if error is None and not self._worker.stopping.is_set():
                error = TaskEnded("the routine returned")
            if error is not None:
                ended.append(task)
                self._report_fatal(task.get_name(), error)
        return ended

    def _report_fatal(self, name: str, error: BaseException) -> None:
        fatal = self._worker.edge.fatal
        if fatal is not None:
            self._observe.topology_mismatched(fatal)
        else:
            self._observe.task_failed(name, error)

    # signals

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        loop.add_signal_handler(signal.SIGHUP, self._worker.flow.store_sync.reload_soon)

    def _signalled(self) -> None:
        """Drain at the first signal; end within a second at the second signal, and at once at the third."""
        if self._forcing is not None:
            os._exit(1)
        if self._is_asked:
            self._observe.warned("daemon.forced")
            self._forcing = asyncio.get_running_loop().create_task(self._force())
        self._is_asked = True
        self._worker.stopping.set()

    async def _force(self) -> None:
        """End; messages that are published already are acked first, or they would be published twice."""
        try:
            await self._worker.flow.context.gate.last_moment(self._worker.edge.flush)
        finally:
            logs.flush(FORCED_FLUSH_S)
            os._exit(1)
