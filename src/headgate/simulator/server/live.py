"""The engine in real time: one loop that steps it, and a ticket for each waiting HTTP request."""

import asyncio
import contextlib
import time
from array import array
from collections.abc import Callable, Sequence
from itertools import count

import msgspec

from headgate.simulator.model import (
    BlockStored,
    Engine,
    EngineConfig,
    EngineStatistics,
    FinishedRequest,
    FinishReason,
    KvEvent,
    RefusedError,
    RemoteStore,
    RequestId,
    SimulatedRequest,
    StepOutcome,
    Tokens,
)
from headgate.simulator.server.blocks import AnswerBlocks
from headgate.simulator.server.metrics import Timings

TokensOf = Callable[[BlockStored], Tokens]
"""The token IDs in the blocks of an event."""
TellKvEvents = Callable[[Sequence[KvEvent], TokensOf], None]
"""Receives cache events, and a function for the tokens in their blocks."""
MAX_LAG_S = 0.05
"""How far the schedule of steps may lag behind the clock and catch up; more is a stall and is skipped."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One sequence to generate."""

    prompt: Tokens
    blocks: Sequence[int]
    """Hashes of the prompt's blocks."""
    answer_blocks: AnswerBlocks | None = None
    """Hashes of the output's blocks; None keeps none of them."""
    adapter: str = ""
    priority: int = 0
    received_tokens: int = 0
    """Prompt tokens whose KV cache another engine has computed."""
    keeps_kv: bool = False
    """Whether its blocks are kept for another engine, until `Ticket.release_kv`."""
    output_tokens: int
    finish_reason: FinishReason


class Choice:
    """Progress of one sequence of a ticket."""

    __slots__ = ("_ask", "cached_tokens", "emitted", "finish_reason", "request")

    def __init__(self, request: SimulatedRequest, ask: Ask) -> None:
        self.request = request
        self._ask = ask
        self.emitted = 0
        self.cached_tokens = 0
        """Cached prompt tokens, known once the sequence has ended."""
        self.finish_reason: FinishReason | None = None

    def tokens_of(self, event: BlockStored) -> Tokens:
        """The token IDs in the blocks of one of its events."""
        first, last = event.position, event.position + len(event.hashes)
        of_prompt = len(self._ask.blocks)
        tokens = self._ask.prompt[first * event.block_size : min(last, of_prompt) * event.block_size]
        if last > of_prompt and self._ask.answer_blocks is not None:
            first = max(first, of_prompt)
            tokens = tokens + self._ask.answer_blocks.tokens(first - of_prompt, last - first)
        return tokens


class Ticket:
    """The state of an HTTP request while its sequences run.

    Only counts are kept, because the text of a token follows from its position: a client that reads slowly
    costs no memory here, and still receives every token later.
    """

    def __init__(self, engine: "LiveEngine", choices: list[Choice], *, every_token: bool) -> None:
        self._engine = engine
        self.choices = choices
        self.every_token = every_token
        self.unfinished = len(choices)
        self.aborted = False
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        """Wait for new tokens, or only for the end if the ticket was created without `every_token`."""
        await self._changed.wait()
        self._changed.clear()

    def cancel(self) -> None:
        """End what still runs, now; sets `aborted`. May be called twice."""
        self._engine.cancel(self)

    def release_kv(self) -> None:
        """Free the blocks that were kept."""
        self._engine.release_kv(self)

    def notify(self) -> None:
        self._changed.set()


class LiveEngine:
    """Owns the engine model and its clock; only `run` steps it.

    The model's clock follows the schedule of steps, not the wake-ups of the event loop: a timer that fires a
    millisecond late shortens the next sleep, and never shows in the model's times. The same holds if the loop
    notices work for an idle engine late: the step begins when the work arrived.
    """

    def __init__(
        self,
        config: EngineConfig,
        timings: Timings,
        clock: Callable[[], float] = time.monotonic,
        store: RemoteStore | None = None,
    ) -> None:
        self._store = store
        self._engine = Engine(config, store)
        self.tell: TellKvEvents | None = None
        self.timings = timings
        self._clock = clock
        self._ids = count()
        self._waiting_for: dict[RequestId, tuple[Ticket, Choice]] = {}
        self._work = asyncio.Event()
        self._work_came_s = 0.0
        self._step_ends_s: float | None = None
        self._held_until_s = 0.0
        self._hold_changed = asyncio.Event()
        self._slowdown = 1.0
        self._life: asyncio.Future[None] | None = None
        """The stepping task, from the engine's start to its crash."""

    async def run(self) -> None:
        """Step while there is work, sleep while there is none, until cancelled."""
        try:
            while True:
                self._life = asyncio.ensure_future(self._live())
                await asyncio.wait((self._life,))
                if not self._life.cancelled():
                    self._life.result()
        finally:
            if self._life is not None:
                self._life.cancel()

    async def _live(self) -> None:
        now = self._clock()
        while True:
            if self._held_until_s > now:
                await self._wait_while_held()
                now = self._clock()
            plan = self._engine.begin_step(now)
            self._tell_kv_events()
            if plan is None:
                self._work.clear()
                await self._work.wait()
                now = self._work_came_s
                continue
            self._step_ends_s = plan.ends_s
            await asyncio.sleep(max(0.0, plan.ends_s - self._clock()))
            self._step_ends_s = None
            outcome = self._engine.finish_step()
            self._tell_kv_events()
            self._deliver(outcome)
            late = self._clock() - plan.ends_s > MAX_LAG_S
            now = self._clock() if late else plan.ends_s

    def restart(self, timings: Timings) -> None:
        """Restart as a new process: nothing runs, nothing is cached, all counters are zero."""
        self.cancel_all()
        if self._life is not None:
            self._life.cancel()
        self._step_ends_s = None
        self._engine = Engine(self._engine.config, self._store)
        self._engine.slow_down(self._slowdown, self._now())
        self.timings = timings

    def slow_down(self, factor: float) -> None:
        """Steps that begin from now on take `factor` times as long."""
        if factor != self._slowdown:
            self._slowdown = factor
            self._engine.slow_down(factor, self._now())

    def change_costs(self, like: EngineConfig) -> None:
        """Steps that begin from now on have the costs of `like`."""
        self._engine.change_costs(like, self._now())

    def hold(self, seconds: float) -> None:
        """Begin no step for this long from now; 0 ends the hold."""
        self._held_until_s = self._clock() + seconds
        self._hold_changed.set()

    async def _wait_while_held(self) -> None:
        while (left_s := self._held_until_s - self._clock()) > 0:
            self._hold_changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._hold_changed.wait()

    def submit(self, sequences: Sequence[Ask], *, every_token: bool) -> Ticket:
        """Start all sequences, or none and raise `RefusedError`."""
        choices = [self._choice(ask) for ask in sequences]
        now = self._now()
        for position, choice in enumerate(choices):
            try:
                self._engine.submit(choice.request, now)
            except RefusedError:
                for earlier in choices[:position]:
                    self._engine.cancel(earlier.request.request_id, now)
                raise
        ticket = Ticket(self, choices, every_token=every_token)
        for choice in choices:
            self._waiting_for[choice.request.request_id] = (ticket, choice)
        self._wake(now)
        return ticket

    def _wake(self, now: float) -> None:
        """Wake the loop: there may be a step to run."""
        self._work_came_s = now
        self._work.set()

    def _choice(self, ask: Ask) -> Choice:
        request = SimulatedRequest(
            request_id=RequestId(str(next(self._ids))),
            prompt_tokens=len(ask.prompt),
            output_tokens=ask.output_tokens,
            finish_reason=ask.finish_reason,
            blocks=ask.blocks,
            answer_blocks=ask.answer_blocks or (),
            adapter=ask.adapter,
            priority=ask.priority,
            received_tokens=ask.received_tokens,
            keeps_kv=ask.keeps_kv,
        )
        return Choice(request, ask)

    def cancel(self, ticket: Ticket) -> None:
        """End what still runs of a ticket, now, with finish reason `abort`. May be called twice."""
        for choice in ticket.choices:
            finished = self._engine.cancel(choice.request.request_id, self._now())
            if finished is not None:
                self._settle(finished)

    def release_kv(self, ticket: Ticket) -> None:
        now = self._now()
        for choice in ticket.choices:
            self._engine.release_kv(choice.request.request_id, now)
        self._wake(now)  # requests that wait for blocks may start

    def cancel_all(self) -> None:
        for ticket in {id(ticket): ticket for ticket, _ in self._waiting_for.values()}.values():
            self.cancel(ticket)

    def _tell_kv_events(self) -> None:
        """Pass on the cache's events before the requests whose blocks they report are gone."""
        events = self._engine.take_kv_events()
        if events and self.tell is not None:
            self.tell(events, self._tokens_of)

    def clear_prefix_cache(self) -> bool:
        """Clear the cache; False while requests use it."""
        cleared = self._engine.clear_prefix_cache()
        self._tell_kv_events()
        return cleared

    def _tokens_of(self, event: BlockStored) -> Tokens:
        if event.request_id is None:
            return array("I")
        return self._waiting_for[event.request_id][1].tokens_of(event)

    def statistics(self) -> EngineStatistics:
        return self._engine.statistics()

    def _now(self) -> float:
        """The model's time: the clock's, but never past the end of the current step."""
        now = self._clock()
        return now if self._step_ends_s is None else min(now, self._step_ends_s)

    def _deliver(self, outcome: StepOutcome) -> None:
        for emission in outcome.emitted:
            ticket, choice = self._waiting_for[emission.request_id]
            choice.emitted += emission.tokens
            self.timings.token(emission, choice.request)
            if ticket.every_token:
                ticket.notify()
        for finished in outcome.finished:
            self._settle(finished)

    def _settle(self, finished: FinishedRequest) -> None:
        ticket, choice = self._waiting_for.pop(finished.request_id)
        self.timings.finished(finished, choice.request)
        choice.finish_reason = finished.reason
        received = min(choice.request.received_tokens, choice.request.prompt_tokens - 1)
        choice.cached_tokens = max(finished.cached_tokens, received)  # as vLLM counts both
        ticket.aborted |= finished.reason == "abort"
        ticket.unfinished -= 1
        if ticket.every_token or not ticket.unfinished:
            ticket.notify()
