"""Keeps the workers of a gateway running: restarts and replaces them, and assigns listening sockets to
them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import msgspec

from headgate import telemetry
from headgate.api.stored_object import StoredObject
from headgate.dataplane.credentials import required
from headgate.dataplane.credentials.credentials import Credentials
from headgate.telemetry import sums
from headgate.workers import messages
from headgate.workers.backoff import Backoff
from headgate.workers.configuration import Configuration
from headgate.workers.counters import Counters
from headgate.workers.given_objects import GivenObjects
from headgate.workers.messages import known
from headgate.workers.process import Adopted, WorkerProcess
from headgate.workers.running import RunningWorkers
from headgate.workers.slots import Slot, Slots
from headgate.workers.sockets import HandedOver, Sockets

if TYPE_CHECKING:
    from headgate.standalone.source import StandaloneObjects

log = logging.getLogger(__name__)

PATIENCE_S = 10.0
"""If no worker is ready for this long, one that is not ready accepts connections and reports that."""
MIND_S = 5.0
HUSH_S = 2.0
KILL_AFTER_S = 5.0
"""How long a worker may take to end beyond its drain timeout."""


class StartError(Exception):
    """The gateway cannot start; the message says why."""


class HandOver(msgspec.Struct, kw_only=True):
    """State that a supervisor passes to its successor, which continues in the same process."""

    settings: dict[str, Any] = {}
    workers: list[Adopted] = []
    sockets: list[HandedOver] = []
    kept: list[sums.Family] = []
    objects: list[StoredObject] = []


class Supervisor:
    """All workers of a gateway. `run` serves until `stop` is set."""

    def __init__(
        self,
        configuration: Configuration,
        registry: telemetry.Registry,
        handed_over: HandOver | None = None,
        objects: StandaloneObjects | None = None,
    ) -> None:
        """`objects`: those of the gateway, if it has no API server. Raises OSError if an address cannot be
        bound and none was handed over."""
        past = handed_over or HandOver()
        self.configuration = configuration
        settings = configuration.settings
        self.credentials = Credentials(settings.auth, settings.scheduling.content, verifies_tokens=False)
        """Those that open the metrics and admin pages."""
        self.sockets = _open(configuration, past)
        self.registry = registry
        self.slots = Slots(configuration.settings.workers.count)
        self.workers = RunningWorkers(len(self.slots), past.kept)
        self.counters = Counters()
        self.objects = GivenObjects(objects, past.objects)
        self.is_stopping = False
        self._settings_changed = asyncio.Event()
        """Set by the next change of settings."""
        self.serving = asyncio.Event()
        """Set once every slot has had a worker that was ready."""
        self._may_fail = bool(past.workers)
        """Whether to continue if no worker can be started."""
        for each in past.workers:
            self._adopt(WorkerProcess.adopt(each))
        telemetry.add_log_metrics(registry)
        self.counters.add_to(registry)
        self.objects.add_to(registry)
        registry.add(
            telemetry.Gauge(
                "headgate_gateway_workers",
                "Worker processes by their state.",
                ("state",),
                self.workers.samples,
            ),
            telemetry.Gauge(
                "headgate_gateway_credentials_valid",
                "Whether the files of keys and tenants could be read; if not, what they said before applies.",
                read=lambda: [((), not self.credentials.troubles)],
            ),
            telemetry.Gauge(
                "headgate_gateway_open",
                "Whether other machines may send requests without credentials, although no setting says so.",
                read=lambda: [((), self.is_open)],
            ),
        )

    @property
    def is_ready(self) -> bool:
        return not self.is_stopping and self.serving.is_set() and bool(self.slots.serving)

    @property
    def is_open(self) -> bool:
        """Whether other machines may use the gateway without credentials, and nobody said so."""
        settings = self.configuration.settings
        return required.is_open(settings.listen.host, settings.auth, settings.scheduling.content)

    async def run(self, stop: asyncio.Event, upgrade: asyncio.Event) -> HandOver | None:
        """Serve until `stop` is set, then end all workers; or until `upgrade` is set, then keep them and
        return the state for the next supervisor. Raises StartError."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for worker in list(self.workers):
                    self._watch(worker)
                    await worker.connection.opened.wait()
                    if not worker.is_retiring and not self.slots.has_place_for(worker):
                        # This version was started with fewer workers.
                        worker.retire(self.configuration.settings.shutdown.retire_s)
                self._assign()
                keeping = [tasks.create_task(self._keep(slot)) for slot in self.slots]
                keeping.append(tasks.create_task(self._mind()))
                keeping.append(tasks.create_task(self.objects.run()))
                await _first(stop.wait(), upgrade.wait())
                if stop.is_set():
                    await self._stop(keeping)
                    return None
                handed_over = await self._hand_over(keeping)
                self.workers.stop_watching()
                return handed_over
        except BaseException:
            self.kill()
            raise

    def change_settings(self) -> None:
        """Send the settings in effect to all workers."""
        logging.getLogger().setLevel(self.configuration.settings.logging.level.upper())
        now = self.configuration.settings
        self.objects.change(now.objects)
        self.credentials.change(now.auth, now.scheduling.content)
        self._settings_changed.set()
        self._settings_changed = asyncio.Event()
        settings = messages.written(now)
        for worker in self.workers:
            if not worker.change(settings):
                log.error(
                    "worker %d (%d) reads nothing, and keeps the previous settings", worker.slot, worker.pid
                )

    # -- workers

    def _watch(self, worker: WorkerProcess) -> None:
        self.objects.give(worker)
        self.workers.watch(worker, self._tasks, self._descriptors_freed, self._ended)

    def _ended(self, worker: WorkerProcess) -> None:
        self.objects.forget(worker)
        self.slots.vacate(worker)
        self._assign()

    def _descriptors_freed(self) -> None:
        self.sockets.reserve.refill()
        # The loop closes the sockets of its transports in its next iteration.
        asyncio.get_running_loop().call_soon(self.sockets.reserve.refill)

    def _adopt(self, worker: WorkerProcess) -> None:
        """Keep the worker, in its slot if there still is one."""
        self.workers.add(worker)
        if not worker.is_retiring and self.slots.adopt(worker):
            self.serving.set()

    async def _keep(self, slot: Slot) -> None:
        """Start a worker for a slot whenever it has none, or its worker has to be replaced."""
        backoff = Backoff()
        while True:
            successor = self._start(slot)
            if successor is None or not await self._until_ready(slot, successor):
                delay_s = backoff.after_failed_start(is_alone=not self.slots.serving)
                log.info("worker %d is started again in %g s, or when settings change", slot.number, delay_s)
                await self._pause(delay_s, backoff)
                continue
            self._replace(slot, successor)
            began = time.monotonic()
            await _first(successor.process.ended.wait(), successor.reports.leaving.wait())
            if not successor.process.ended.is_set():
                log.info("worker %d (%d) was told to end and is replaced", slot.number, successor.pid)
                continue
            delay_s = backoff.after_end(time.monotonic() - began, is_alone=not self.slots.serving)
            log.warning(
                "worker %d (%d) %s; starting another%s",
                slot.number,
                successor.pid,
                successor.process.end,
                f" in {delay_s:g} s" if delay_s else "",
            )
            slot.restarts += 1
            self.counters.restarts.labels().value += 1
            await self._pause(delay_s, backoff)

    async def _pause(self, delay_s: float, backoff: Backoff) -> None:
        """Wait before a start, but not longer than until settings change."""
        changed = self._settings_changed
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await changed.wait()
                backoff.forget()

    async def _mind(self) -> None:
        """Kill workers that serve but report nothing: the connections of their sockets are waiting."""
        while True:
            limit_s = self.configuration.settings.workers.hang_s
            pause_s = min(limit_s, MIND_S) if limit_s else MIND_S
            before = time.monotonic()
            await asyncio.sleep(pause_s)
            now = time.monotonic()
            if now - before > 2 * pause_s:
                continue  # the supervisor itself hung, and has not read the reports yet
            for worker in self.slots.serving:
                if limit_s and now - worker.reports.heard_at > limit_s:
                    log.error(
                        "worker %d (%d) has hung for %g s and is killed", worker.slot, worker.pid, limit_s
                    )
                    worker.process.kill()

    def _start(self, slot: Slot) -> WorkerProcess | None:
        """Start a worker; None if the system cannot start a process, for example for lack of memory. Other
        workers keep serving."""
        listeners = [sock.fileno() for sock in self.sockets.api]
        settings = self.configuration.settings
        try:
            with self.sockets.reserve.released():
                worker = WorkerProcess.start(
                    slot.number, len(self.slots), settings, listeners, has_objects=self.objects.are_there
                )
        except OSError as error:
            self._note_failed_start(f"worker {slot.number}: {error.strerror or error}")
            return None
        slot.successor = worker
        self._watch(worker)
        return worker

    async def _until_ready(self, slot: Slot, worker: WorkerProcess) -> bool:
        """Return whether it became ready. On the first start it serves meanwhile, and reports that it is not
        ready."""
        await _first(worker.connection.opened.wait(), worker.process.ended.wait())
        if not self._may_fail:
            self._assign()
        both = asyncio.ensure_future(_first(worker.reports.ready.wait(), worker.process.ended.wait()))
        try:
            await asyncio.wait_for(asyncio.shield(both), PATIENCE_S)
        except TimeoutError:
            self._assign(even_if_not_ready=True)
            await both
        slot.successor = None
        if worker.process.ended.is_set():
            self._note_failed_start(
                worker.reports.failure or f"worker {worker.slot} {worker.process.end} before it was ready"
            )
            return False
        return True

    def _note_failed_start(self, why: str) -> None:
        if not self._may_fail:
            raise StartError(why)
        log.error("a worker could not be started: %s", why)

    def _replace(self, slot: Slot, successor: WorkerProcess) -> None:
        old, slot.worker = slot.worker, successor
        self._may_fail = True
        self._assign()
        if self.is_stopping:
            successor.tell(messages.Leave())
        if old is not None and not old.process.ended.is_set():
            old.retire(self.configuration.settings.shutdown.retire_s)
        if len(self.slots.serving) == len(self.slots):
            self.serving.set()

    def _assign(self, *, even_if_not_ready: bool = False) -> None:
        """Assign the listening sockets again. Before the first worker was ready, or if that takes long, a
        worker that is not ready gets them."""
        self.slots.assign(self.sockets, even_if_not_ready=even_if_not_ready or not self._may_fail)

    # -- shutdown

    async def _stop(self, keeping: list[asyncio.Task[None]]) -> None:
        settings = self.configuration.settings
        self.is_stopping = True
        self.workers.tell(messages.Leave())
        if settings.shutdown.lameduck_s:
            log.info(
                "not ready any more; connections are still accepted for %g s", settings.shutdown.lameduck_s
            )
            await asyncio.sleep(settings.shutdown.lameduck_s)
        await self._end_keeping(keeping)
        self.slots.close()
        self.sockets.close_api()
        self.workers.tell(messages.Drain(settings.shutdown.drain_s))
        ending = [asyncio.ensure_future(worker.process.ended.wait()) for worker in self.workers]
        if ending:
            await asyncio.wait(ending, timeout=settings.shutdown.drain_s + KILL_AFTER_S)
        for worker in list(self.workers):
            log.warning("worker %d (%d) did not end and is killed", worker.slot, worker.pid)
            worker.process.kill()
        await asyncio.gather(*ending)

    async def _end_keeping(self, keeping: list[asyncio.Task[None]]) -> None:
        for task in keeping:
            task.cancel()
        await asyncio.gather(*keeping, return_exceptions=True)
        for worker in self.slots.starting:
            worker.process.kill()

    def kill(self) -> None:
        """Kill all workers."""
        self.workers.kill()

    # -- upgrade

    async def _hand_over(self, keeping: list[asyncio.Task[None]]) -> HandOver:
        await self._end_keeping(keeping)
        self.slots.close()
        self.workers.tell(messages.Quiesce())
        hushed = [
            asyncio.ensure_future(_first(each.reports.hushed.wait(), each.process.ended.wait()))
            for each in self.workers
        ]
        if hushed:
            await asyncio.wait(hushed, timeout=HUSH_S)
        for worker in list(self.workers):
            if not worker.reports.hushed.is_set():
                log.warning("worker %d (%d) does not respond and is killed", worker.slot, worker.pid)
                worker.process.kill()
        await asyncio.gather(*hushed)
        self.sockets.reserve.close()
        return HandOver(
            settings=messages.written(self.configuration.settings),
            workers=[worker.handed_over() for worker in self.workers if not worker.process.ended.is_set()],
            sockets=self.sockets.hand_over(),
            kept=self.workers.keep(sums.families(self.registry)),
            objects=self.objects.handed_over(),
        )


def _open(configuration: Configuration, past: HandOver) -> Sockets:
    try:
        return Sockets(configuration.settings, past.sockets)
    except OSError as error:
        if not past.sockets:
            raise
        log.error("keeping the previous addresses: %s", error.strerror)
        configuration.keep_addresses(known(past.settings))
        return Sockets(configuration.settings, past.sockets)


async def _first(*waits: Awaitable[object]) -> None:
    """Wait until one of them is done; cancel the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
