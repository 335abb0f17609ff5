"""Run an engine in virtual time: an hour of traffic takes only as long as its decisions."""

import heapq
from collections.abc import Callable, Iterable
from itertools import count

import msgspec

from headgate.simulator.model.engine import Engine
from headgate.simulator.model.request import (
    FinishedRequest,
    RefusedError,
    RequestId,
    SimulatedRequest,
    StepOutcome,
)

STEPS_AT_ONCE = 256
"""Maximum equal steps at once: those after the next event are computed in vain."""


class Submission(msgspec.Struct, frozen=True):
    """A request arrives."""

    at_s: float
    request: SimulatedRequest


class Cancellation(msgspec.Struct, frozen=True):
    """The client of a request disconnects."""

    at_s: float
    request_id: RequestId


Event = Submission | Cancellation


class VirtualRun(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a run: every submitted request is in `finished` or `refused`, in order of its end."""

    finished: tuple[FinishedRequest, ...]
    refused: tuple[RequestId, ...]
    ended_s: float


def run_virtual(
    engine: Engine,
    events: Iterable[Event],
    *,
    on_step: Callable[[StepOutcome], None] | None = None,
    on_finish: Callable[[FinishedRequest], Iterable[Event]] | None = None,
) -> VirtualRun:
    """Run until no event is left and the engine is idle.

    `on_finish` may return further events when a request ends (a closed loop of clients, the next turn of a
    session); their times must not be before that end. Equal inputs produce identical runs, bit by bit.
    `on_step` receives every single step; without it, equal steps run at once, which changes no time.
    """
    run = _Run(engine, on_finish)
    most = 1 if on_step is not None else STEPS_AT_ONCE
    for event in events:
        run.schedule(event)
    while True:
        plan = engine.begin_step(run.now, most=most)
        if plan is None:
            if not run.pending:
                return run.result()
            run.advance_to(run.pending[0][0])
            continue
        run.advance_to_end_of_step()
        outcome = engine.finish_step()
        if on_step is not None:
            on_step(outcome)
        for finished in outcome.finished:
            run.end(finished)


class _Run:
    """The clock, the future events and the results of one run."""

    def __init__(
        self, engine: Engine, on_finish: Callable[[FinishedRequest], Iterable[Event]] | None
    ) -> None:
        self.now = 0.0
        self.pending: list[tuple[float, int, Event]] = []
        self._engine = engine
        self._on_finish = on_finish
        self._ties = count()  # events at the same time happen in the order they were scheduled
        self._finished: list[FinishedRequest] = []
        self._refused: list[RequestId] = []

    def schedule(self, event: Event) -> None:
        if event.at_s < self.now:
            raise ValueError(f"an event at {event.at_s} s lies before the virtual time {self.now} s")
        heapq.heappush(self.pending, (event.at_s, next(self._ties), event))

    def advance_to(self, time_s: float) -> None:
        """Process everything due by `time_s`."""
        while self.pending and self.pending[0][0] <= time_s:
            self._next()
        self.now = time_s

    def advance_to_end_of_step(self) -> None:
        """Like `advance_to`, until the end of the step; events may bring that end nearer."""
        while self.pending and self.pending[0][0] <= self._step_ends_s():
            self._next()
        self.now = self._step_ends_s()

    def end(self, finished: FinishedRequest) -> None:
        self._finished.append(finished)
        for event in self._on_finish(finished) if self._on_finish else ():
            self.schedule(event)

    def result(self) -> VirtualRun:
        return VirtualRun(finished=tuple(self._finished), refused=tuple(self._refused), ended_s=self.now)

    def _step_ends_s(self) -> float:
        ends_s = self._engine.step_ends_s
        assert ends_s is not None, "a step is under way"
        return ends_s

    def _next(self) -> None:
        self.now, _, event = heapq.heappop(self.pending)
        self._apply(event)

    def _apply(self, event: Event) -> None:
        if isinstance(event, Cancellation):
            finished = self._engine.cancel(event.request_id, self.now)
            if finished is not None:
                self.end(finished)
            return
        try:
            self._engine.submit(event.request, self.now)
        except RefusedError:
            self._refused.append(event.request.request_id)
