"""One simulated engine behind its endpoint: its steps on the timeline, its requests, its readings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headgate.engines import Figures, Total
from headgate.fleet import EndpointLoad
from headgate.fleet.observation import Observation
from headgate.simulator.fleet.flight import Flight
from headgate.simulator.fleet.timeline import STEP_BEGINS, STEP_ENDS, Timeline
from headgate.simulator.model import (
    Emission,
    Engine,
    EngineConfig,
    FinishedRequest,
    RequestId,
    SimulatedRequest,
    StepOutcome,
)

STEPS_AT_ONCE = 256
STEPS_AT_ONCE_WITH_EVENTS = 8
"""With KV events, which are told when steps that are taken in one go are over: so they are not late."""


class SimulatedEndpoint:
    """Steps its engine while there is work, and tells what comes of each request."""

    def __init__(
        self,
        config: EngineConfig,
        group: str,
        load: EndpointLoad,
        timeline: Timeline,
        *,
        first_token: Callable[[Flight, float], None],
        finished: Callable[[Flight, FinishedRequest], None],
        stepped: Callable[[SimulatedEndpoint], None] | None = None,
    ) -> None:
        self.config = config
        self.group = group
        self.load = load
        self.engine = Engine(config)
        self.requests = 0
        self._timeline = timeline
        self._first_token = first_token
        self._finished = finished
        self._stepped = stepped
        self._most = STEPS_AT_ONCE_WITH_EVENTS if stepped else STEPS_AT_ONCE
        self._flights: dict[RequestId, Flight] = {}
        self._begins = False
        self._ends_s: float | None = None
        self._observation = Observation()
        self._ttft = Total(0.0, 0.0)
        self._tpot = Total(0.0, 0.0)

    @property
    def name(self) -> str:
        return self.load.endpoint.name

    def submit(self, request: SimulatedRequest, flight: Flight) -> None:
        """Hands a request to the engine; `RefusedError` if it does not take it."""
        self.engine.submit(request, self._timeline.now)
        self._flights[request.request_id] = flight
        self.requests += 1
        self._follow_engine()

    def read(self) -> None:
        """The gateway reads the engine's metrics: its load has them from now on."""
        now = self._timeline.now
        self.engine.settle(now)
        self._follow_engine()
        statistics = self.engine.statistics()
        self._observation.see(
            Figures(
                waiting=statistics.waiting,
                running=statistics.running,
                kv_usage=statistics.kv_usage,
                block_tokens=self.config.block_size,
                blocks=self.config.kv_blocks,
                ttft=self._ttft,
                tpot=self._tpot,
                adapters_running=statistics.adapters_running,
                adapters_waiting=statistics.adapters_waiting,
                max_adapters=statistics.max_adapters,
            ),
            now,
        )
        self.load.read(self._observation.reading)

    def _follow_engine(self) -> None:
        """Has the engine's next step begun, or the one under way ended, when it is time."""
        ends_s = self.engine.step_ends_s
        if ends_s is None:
            if not self._begins:
                self._begins = True
                self._timeline.at(self._timeline.now, self._begin, STEP_BEGINS)
        elif ends_s != self._ends_s:
            self._ends_s = ends_s
            self._timeline.at(ends_s, partial(self._end, ends_s), STEP_ENDS)

    def _begin(self) -> None:
        self._begins = False
        if self.engine.begin_step(self._timeline.now, most=self._most) is not None:
            self._follow_engine()

    def _end(self, ends_s: float) -> None:
        if ends_s != self._ends_s:
            return  # the steps were cut, and their end is planned anew
        self._ends_s = None
        outcome = self.engine.finish_step()
        self._tell(outcome)
        if self._stepped is not None:
            self._stepped(self)
        self._follow_engine()

    def _tell(self, outcome: StepOutcome) -> None:
        now = self._timeline.now
        gaps_s, tokens = 0.0, 0
        for emission in outcome.emitted:
            if emission.position:
                gaps_s += emission.gap_s
                tokens += emission.tokens
            else:
                self._tell_first(emission, now)
        if tokens:
            self._tpot = Total(self._tpot.sum_s + gaps_s, self._tpot.samples + tokens)
        for finished in outcome.finished:
            self._finished(self._flights.pop(finished.request_id), finished)

    def _tell_first(self, emission: Emission, now: float) -> None:
        self._ttft = Total(self._ttft.sum_s + emission.gap_s, self._ttft.samples + 1)
        self._first_token(self._flights[emission.request_id], now)
