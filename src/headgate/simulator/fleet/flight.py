"""A request on its way: what the gateway holds of it."""

from __future__ import annotations

from headgate import scheduling
from headgate.fleet import Booking, EndpointLoad
from headgate.simulator.fleet.records import Outcome, RequestRecord
from headgate.simulator.model import FinishedRequest
from headgate.simulator.traces import TimedRequest


class Flight:
    """From the arrival of a request to its record."""

    __slots__ = ("attempts", "booking", "choice", "first_token_s", "number", "scheduled", "timed", "tried")

    def __init__(self, number: int, timed: TimedRequest, scheduled: scheduling.Request) -> None:
        self.number = number
        self.timed = timed
        self.scheduled = scheduled
        self.tried: list[EndpointLoad] = []
        self.attempts = 0
        self.choice: scheduling.Choice | None = None
        """Of the last attempt."""
        self.booking: Booking | None = None
        self.first_token_s: float | None = None

    def record(self, outcome: Outcome, now: float, finished: FinishedRequest | None = None) -> RequestRecord:
        timed, choice = self.timed, self.choice
        return RequestRecord(
            number=self.number,
            arrived_s=timed.at_s,
            ended_s=now,
            outcome=outcome,
            endpoint=choice.load.endpoint.name if choice else "",
            attempts=self.attempts,
            prompt_tokens=timed.prompt_tokens,
            output_tokens=finished.output_tokens if finished else 0,
            cached_tokens=finished.cached_tokens if finished else 0,
            expected_cached_tokens=choice.cached_tokens if choice else 0,
            expected_first_token_s=choice.first_token_s if choice else None,
            first_token_s=self.first_token_s,
            started_s=finished.started_s if finished else None,
            preemptions=finished.preemptions if finished else 0,
            session=timed.session,
            adapter=timed.adapter,
        )
