"""Keeps the workers of a gateway running: restarts and replaces them, and assigns listening sockets to
them."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable
from typing import Any

import msgspec

from headgate import telemetry
from headgate.telemetry import sums
from headgate.workers import messages
from headgate.workers.accounts import Accounts
from headgate.workers.configuration import Configuration
from headgate.workers.messages import known
from headgate.workers.process import Adopted, WorkerProcess
from headgate.workers.shared_queues import SharedQueues
from headgate.workers.sockets import HandedOver, Sockets

log = logging.getLogger(__name__)

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
STEADY_S = 60.0
"""A worker that ends after serving this long is replaced immediately, and so is the first one that ends."""
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


class _Slot:
    """The place of one worker, whichever process fills it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.worker: WorkerProcess | None = None
        """The serving worker."""
        self.successor: WorkerProcess | None = None
        """The worker that is starting."""
        self.restarts = 0


class Supervisor:
    """All workers of a gateway. `run` serves until `stop` is set."""

    def __init__(
        self,
        configuration: Configuration,
        registry: telemetry.Registry,
        handed_over: HandOver | None = None,
    ) -> None:
        """Raises OSError if an address cannot be bound and none was handed over."""
        past = handed_over or HandOver()
        self.configuration = configuration
        self.sockets = _open(configuration, past)
        self.sums = sums.Sums(past.kept)
        self.registry = registry
        self.slots = [_Slot(number) for number in range(configuration.settings.workers.count)]
        self.accounts = Accounts(uuid.uuid4().hex)
        self._queues = SharedQueues(len(self.slots))
        self.workers: set[WorkerProcess] = set()
        """All workers that have not ended."""
        self.is_stopping = False
        self.serving = asyncio.Event()
        """Set once every slot has had a worker that was ready."""
        self._watching: set[asyncio.Task[None]] = set()
        self._is_open = True
        """Whether connections are accepted."""
        self._surplus: list[WorkerProcess] = []
        """Workers without a slot after an upgrade to fewer workers."""
        self._may_fail = bool(past.workers)
        """Whether to continue if no worker can be started."""
        for each in past.workers:
            self._adopt(WorkerProcess.adopt(each))
        self._restarts = telemetry.Counter(
            "headgate_gateway_worker_restarts", "Workers started to replace one that ended unexpectedly."
        )
        self.page_rejections = telemetry.Counter(
            "headgate_gateway_page_connections_rejected",
            "Connections to the metrics page and the admin pages closed for exceeding a limit.",
            ("page", "reason"),
        )
        self.page_requests_rejected = telemetry.Counter(
            "headgate_gateway_page_requests_rejected",
            "Requests for the metrics page and the admin pages rejected for their host or origin; reason is "
            "unknown_host (421) or other_origin (403).",
            ("page", "reason"),
        )
        telemetry.add_log_metrics(registry)
        registry.add(
            self._restarts,
            self.page_rejections,
            self.page_requests_rejected,
            telemetry.Gauge(
                "headgate_gateway_workers", "Worker processes by their state.", ("state",), self._states
            ),
        )

    def _states(self) -> list[tuple[tuple[str, ...], float]]:
        states = [worker.state for worker in self.workers]
        return [((state,), states.count(state)) for state in ("starting", "ready", "retiring")]

    @property
    def is_ready(self) -> bool:
        return not self.is_stopping and self.serving.is_set() and any(slot.worker for slot in self.slots)

    async def run(self, stop: asyncio.Event, upgrade: asyncio.Event) -> HandOver | None:
        """Serve until `stop` is set, then end all workers; or until `upgrade` is set, then keep them and
        return the state for the next supervisor. Raises StartError."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for worker in list(self.workers):
                    self._watch(worker)
                    await worker.connection.opened.wait()
                    if worker in self._surplus:
                        worker.retire(self.configuration.settings.shutdown.retire_s)
                self._assign()
                keeping = [tasks.create_task(self._keep(slot)) for slot in self.slots]
                keeping.append(tasks.create_task(self._mind()))
                await _first(stop.wait(), upgrade.wait())
                if stop.is_set():
                    await self._stop(keeping)
                    return None
                handed_over = await self._hand_over(keeping)
                for task in self._watching:
                    task.cancel()
                return handed_over
        except BaseException:
            self.kill()
            raise

    def change_settings(self) -> None:
        """Send the settings in effect to all workers."""
        logging.getLogger().setLevel(self.configuration.settings.logging.level.upper())
        settings = messages.written(self.configuration.settings)
        for worker in self.workers:
            if not worker.change(settings):
                log.error(
                    "worker %d (%d) reads nothing, and keeps the previous settings", worker.slot, worker.pid
                )

    # -- workers

    def _watch(self, worker: WorkerProcess) -> None:
        self.workers.add(worker)
        task = self._tasks.create_task(self._until_ended(worker))
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)

    async def _until_ended(self, worker: WorkerProcess) -> None:
        await worker.run(self.accounts, self._queues, self._descriptors_freed)
        self.workers.discard(worker)
        self._queues.forget(worker)
        self.sums.keep(worker.reports.families)
        for slot in self.slots:
            if slot.worker is worker:
                slot.worker = None
        self._assign()

    def _descriptors_freed(self) -> None:
        self.sockets.reserve.refill()
        # The loop closes the sockets of its transports in its next iteration.
        asyncio.get_running_loop().call_soon(self.sockets.reserve.refill)

    def _adopt(self, worker: WorkerProcess) -> None:
        """Keep the worker in its slot, if there still is one."""
        self.workers.add(worker)
        slot = self.slots[worker.slot] if worker.slot < len(self.slots) else None
        if worker.is_retiring:
            return
        if slot is None:
            self._surplus.append(worker)
        else:
            slot.worker = worker
            self.serving.set()

    async def _keep(self, slot: _Slot) -> None:
        """Start a worker for a slot whenever it has none, or its worker has to be replaced."""
        delay_s = 0.0
        while True:
            successor = self._start(slot)
            if successor is None or not await self._until_ready(slot, successor):
                delay_s = min(max(2 * delay_s, FIRST_DELAY_S), LONGEST_DELAY_S)
                await asyncio.sleep(delay_s)
                continue
            self._replace(slot, successor)
            began = time.monotonic()
            await _first(successor.process.ended.wait(), successor.reports.leaving.wait())
            if not successor.process.ended.is_set():
                log.info("worker %d (%d) was told to end and is replaced", slot.number, successor.pid)
                continue
            if time.monotonic() - began >= STEADY_S:
                delay_s = 0.0
            log.warning(
                "worker %d (%d) %s; starting another", slot.number, successor.pid, successor.process.end
            )
            slot.restarts += 1
            self._restarts.labels().value += 1
            await asyncio.sleep(delay_s)
            delay_s = min(max(2 * delay_s, FIRST_DELAY_S), LONGEST_DELAY_S)

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
            for slot in self.slots:
                worker = slot.worker
                if worker is not None and limit_s and now - worker.reports.heard_at > limit_s:
                    log.error(
                        "worker %d (%d) has hung for %g s and is killed", slot.number, worker.pid, limit_s
                    )
                    worker.process.kill()

    def _start(self, slot: _Slot) -> WorkerProcess | None:
        """Start a worker; None if the system cannot start a process, for example for lack of memory. Other
        workers keep serving."""
        listeners = [sock.fileno() for sock in self.sockets.api]
        settings = self.configuration.settings
        try:
            with self.sockets.reserve.released():
                worker = WorkerProcess.start(slot.number, len(self.slots), settings, listeners)
        except OSError as error:
            self._note_failed_start(f"worker {slot.number}: {error.strerror or error}")
            return None
        slot.successor = worker
        self._watch(worker)
        return worker

    async def _until_ready(self, slot: _Slot, worker: WorkerProcess) -> bool:
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

    def _replace(self, slot: _Slot, successor: WorkerProcess) -> None:
        old, slot.worker = slot.worker, successor
        self._may_fail = True
        self._assign()
        if self.is_stopping:
            successor.tell(messages.Leave())
        if old is not None and not old.process.ended.is_set():
            old.retire(self.configuration.settings.shutdown.retire_s)
        if all(slot.worker is not None for slot in self.slots):
            self.serving.set()

    def _assign(self, *, even_if_not_ready: bool = False) -> None:
        """Assign every listening socket to the worker of its slot, or to another while there is none.

        If no worker is ready, connections wait in the queues of the sockets. But before the first worker was
        ready, or if that takes long, a worker that is not ready gets them.
        """
        if not self._is_open:
            return
        ready = [slot.worker for slot in self.slots if slot.worker is not None]
        if not ready and (even_if_not_ready or not self._may_fail):
            ready = [slot.successor for slot in self.slots if slot.successor is not None]
        shares: dict[WorkerProcess, list[int]] = {worker: [] for worker in ready}
        for place, sock in enumerate(self.sockets.api):
            slot = self.slots[place % len(self.slots)]
            able = [worker for worker in ready if sock.fileno() in worker.listeners]
            if able:
                own = slot.worker or slot.successor
                shares[own if own in able else able[place % len(able)]].append(sock.fileno())
                self.sockets.listen(sock)
        for worker, share in shares.items():
            worker.serve(share)

    # -- shutdown

    async def _stop(self, keeping: list[asyncio.Task[None]]) -> None:
        settings = self.configuration.settings
        self.is_stopping = True
        for worker in self.workers:
            worker.tell(messages.Leave())
        if settings.shutdown.lameduck_s:
            log.info(
                "not ready any more; connections are still accepted for %g s", settings.shutdown.lameduck_s
            )
            await asyncio.sleep(settings.shutdown.lameduck_s)
        await self._end_keeping(keeping)
        self._is_open = False
        self.sockets.close_api()
        for worker in self.workers:
            worker.tell(messages.Drain(settings.shutdown.drain_s))
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
        for slot in self.slots:
            if slot.successor is not None:
                slot.successor.process.kill()

    def kill(self) -> None:
        """Kill all workers."""
        for worker in self.workers:
            worker.process.kill()

    # -- upgrade

    async def _hand_over(self, keeping: list[asyncio.Task[None]]) -> HandOver:
        await self._end_keeping(keeping)
        self._is_open = False
        for worker in self.workers:
            worker.tell(messages.Quiesce())
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
        self.sums.keep(sums.families(self.registry))
        self.sockets.reserve.close()
        return HandOver(
            settings=messages.written(self.configuration.settings),
            workers=[worker.handed_over() for worker in self.workers if not worker.process.ended.is_set()],
            sockets=self.sockets.hand_over(),
            kept=self.sums.kept,
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
