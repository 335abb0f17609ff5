"""The engine in real time: one loop that steps it, a ticket for each HTTP request that waits."""

import asyncio
import time
from collections.abc import Callable, Sequence
from itertools import count

from headgate.simulator.model import (
    Engine,
    EngineConfig,
    EngineStatistics,
    FinishedRequest,
    FinishReason,
    RefusedError,
    RequestId,
    SimulatedRequest,
    StepOutcome,
)
from headgate.simulator.server.metrics import Timings

MAX_LAG_S = 0.05
"""How far the schedule of steps may trail the clock and catch up; more was a stall and is forgotten."""


class Choice:
    """Progress of one sequence of a ticket."""

    __slots__ = ("emitted", "finish_reason", "request")

    def __init__(self, request: SimulatedRequest) -> None:
        self.request = request
        self.emitted = 0
        self.finish_reason: FinishReason | None = None


class Ticket:
    """What an HTTP request holds while its sequences run.

    Only counts are kept, as the text of a token follows from its position: a client that reads slowly costs
    no memory here, and finds everything it missed when it comes back.
    """

    def __init__(self, choices: list[Choice], *, every_token: bool) -> None:
        self.choices = choices
        self.every_token = every_token
        self.unfinished = len(choices)
        self.aborted = False
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        """Wait for new tokens, or only for the end if the ticket was not taken for every token."""
        await self._changed.wait()
        self._changed.clear()

    def notify(self) -> None:
        self._changed.set()


class LiveEngine:
    """Owns the engine model and its clock; `run` is the only thing that steps it.

    The model's clock follows the schedule of steps, not the wake-ups of the event loop: a timer that fires a
    millisecond late shortens the next sleep, and never shows in the times that the model measures.
    """

    def __init__(
        self, config: EngineConfig, timings: Timings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine = Engine(config)
        self._timings = timings
        self._clock = clock
        self._ids = count()
        self._waiting_for: dict[RequestId, tuple[Ticket, Choice]] = {}
        self._work = asyncio.Event()
        self._step_ends_s: float | None = None

    async def run(self) -> None:
        """Step while there is work, sleep while there is none; until cancelled."""
        now = self._clock()
        while True:
            plan = self._engine.begin_step(now)
            if plan is None:
                self._work.clear()
                await self._work.wait()
                now = self._clock()
                continue
            self._step_ends_s = plan.ends_s
            await asyncio.sleep(max(0.0, plan.ends_s - self._clock()))
            self._step_ends_s = None
            self._deliver(self._engine.finish_step())
            late = self._clock() - plan.ends_s > MAX_LAG_S
            now = self._clock() if late else plan.ends_s

    def submit(self, sequences: Sequence[tuple[int, int, FinishReason]], *, every_token: bool) -> Ticket:
        """Start all sequences, or none and raise `RefusedError`; each is (prompt, output, how it ends)."""
        choices = [
            Choice(
                SimulatedRequest(
                    request_id=RequestId(str(next(self._ids))),
                    prompt_tokens=prompt_tokens,
                    output_tokens=output_tokens,
                    finish_reason=reason,
                )
            )
            for prompt_tokens, output_tokens, reason in sequences
        ]
        now = self._now()
        for position, choice in enumerate(choices):
            try:
                self._engine.submit(choice.request, now)
            except RefusedError:
                for earlier in choices[:position]:
                    self._engine.cancel(earlier.request.request_id, now)
                raise
        ticket = Ticket(choices, every_token=every_token)
        for choice in choices:
            self._waiting_for[choice.request.request_id] = (ticket, choice)
        self._work.set()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """End what still runs of a ticket, now; its holder sees finish reason `abort`. Twice is harmless."""
        for choice in ticket.choices:
            finished = self._engine.cancel(choice.request.request_id, self._now())
            if finished is not None:
                self._settle(finished)

    def cancel_all(self) -> None:
        for ticket in {id(ticket): ticket for ticket, _ in self._waiting_for.values()}.values():
            self.cancel(ticket)

    def statistics(self) -> EngineStatistics:
        return self._engine.statistics()

    def _now(self) -> float:
        """The model's time: the clock's, but never past the end of the step under way."""
        now = self._clock()
        return now if self._step_ends_s is None else min(now, self._step_ends_s)

    def _deliver(self, outcome: StepOutcome) -> None:
        for emission in outcome.emitted:
            ticket, choice = self._waiting_for[emission.request_id]
            choice.emitted += 1
            self._timings.token(emission, choice.request)
            if ticket.every_token:
                ticket.notify()
        for finished in outcome.finished:
            self._settle(finished)

    def _settle(self, finished: FinishedRequest) -> None:
        ticket, choice = self._waiting_for.pop(finished.request_id)
        self._timings.finished(finished, choice.request)
        choice.finish_reason = finished.reason
        ticket.aborted |= finished.reason == "abort"
        ticket.unfinished -= 1
        if ticket.every_token or not ticket.unfinished:
            ticket.notify()
