"""The worker processes that run, and what they share."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence

from headgate.telemetry import sums
from headgate.workers import messages
from headgate.workers.accounts import Accounts
from headgate.workers.process import Shared, WorkerProcess
from headgate.workers.pulse import Pulse
from headgate.workers.shared_queues import SharedQueues


class RunningWorkers:
    """All workers that have not ended. Their token limits, their queues and the sums of their metrics are
    common."""

    def __init__(self, count: int, kept: Sequence[sums.Family]) -> None:
        """`count`: workers that serve at a time. `kept`: metrics of workers that have ended."""
        self._all: set[WorkerProcess] = set()
        self._watching: set[asyncio.Task[None]] = set()
        self._shared = Shared(Accounts(uuid.uuid4().hex), SharedQueues(count), Pulse())
        self._sums = sums.Sums(kept)

    def __iter__(self) -> Iterator[WorkerProcess]:
        return iter(self._all)

    @property
    def starved(self) -> Pulse:
        """Beats whenever requests of a worker begin to wait for a pool without endpoints."""
        return self._shared.starved

    def add(self, worker: WorkerProcess) -> None:
        self._all.add(worker)

    def watch(
        self,
        worker: WorkerProcess,
        tasks: asyncio.TaskGroup,
        freed: Callable[[], None],
        ended: Callable[[WorkerProcess], None],
    ) -> None:
        """Read its reports until it has ended; then call `ended`. `freed` is called whenever descriptors were
        closed."""
        self._all.add(worker)
        task = tasks.create_task(self._until_ended(worker, freed, ended))
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)

    async def _until_ended(
        self, worker: WorkerProcess, freed: Callable[[], None], ended: Callable[[WorkerProcess], None]
    ) -> None:
        await worker.run(self._shared, freed)
        self._all.discard(worker)
        self._shared.queues.forget(worker)
        self._sums.keep(worker.reports.families)
        ended(worker)

    def stop_watching(self) -> None:
        """Leave all workers to the next supervisor."""
        for task in self._watching:
            task.cancel()

    def tell(self, order: messages.Order) -> None:
        for worker in self._all:
            worker.tell(order)

    def kill(self) -> None:
        for worker in self._all:
            worker.process.kill()

    # -- metrics

    def keep(self, families: list[sums.Family]) -> list[sums.Family]:
        """Add metrics of a process that ends; return those of all that have ended."""
        self._sums.keep(families)
        return self._sums.kept

    def page(self, families: list[sums.Family], accept: str) -> tuple[bytes, str]:
        """The metrics of all workers, including those that have ended, and these; with the content type."""
        reported = [worker.reports.families for worker in self._all]
        return self._sums.page([families, *reported], accept)

    def families(self, names: Collection[str]) -> list[sums.Family]:
        """These metrics of all workers, including those that have ended, as reported last."""
        reported = [[each for each in worker.reports.families if each.name in names] for worker in self._all]
        return [each for each in self._sums.of(reported) if each.name in names]

    def samples(self) -> list[tuple[tuple[str, ...], float]]:
        """The number of workers in each state."""
        states = [worker.state for worker in self._all]
        return [((state,), states.count(state)) for state in ("starting", "ready", "retiring")]
