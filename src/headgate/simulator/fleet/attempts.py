"""One attempt to serve a request on one endpoint, from its booking to what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.fleet import Booking, Suspect, blame
from headgate.simulator.fleet.endpoint import SimulatedEndpoint
from headgate.simulator.fleet.flight import Flight
from headgate.simulator.model import FinishedRequest, SimulatedRequest

if TYPE_CHECKING:
    from headgate.simulator.fleet.gateway import SimulatedGateway


class Attempt:
    """Listens to the endpoint that answers."""

    def __init__(
        self, gateway: SimulatedGateway, flight: Flight, endpoint: SimulatedEndpoint, booking: Booking
    ) -> None:
        self.gateway = gateway
        self.flight = flight
        self.endpoint = endpoint
        self.booking = booking
        self.sent_s = gateway.now

    def start(self) -> None:
        """Asks the endpoint."""
        self.ask(self.flight.asked(self.endpoint.config))

    def ask(self, request: SimulatedRequest) -> None:
        self.sent_s = self.gateway.now
        self.endpoint.send(request, self)

    def settle(self, answer_tokens: int | None = None) -> None:
        """Ends the booking; `answer_tokens` of an answer that was served to its end."""
        self.gateway.settle(self.flight, self.booking, answer_tokens)

    # -- what the endpoint tells

    def first_token(self) -> None:
        self.gateway.observer.generated(self.flight.timed, self.booking.load, self.gateway.now)
        if self.flight.timed.is_streamed:
            self._first_byte()

    def _first_byte(self) -> None:
        """The gateway sees something of the answer."""
        now, load = self.gateway.now, self.booking.load
        flight = self.flight
        flight.first_token_s = now
        self.gateway.evidence.silences[flight.timed.is_streamed].note(now - self.sent_s)
        self.gateway.blame(flight.suspects.served())
        adapter = flight.timed.adapter
        keys = ((status, adapter) for status in blame.LIKELY_SHARED)
        alone = self.gateway.evidence.shared.served(lambda: keys, load, now)
        self.gateway.blame([Suspect(other, status, None) for other, status in alone])
        if load.lacking:
            load.lacking.pop(flight.timed.adapter, None)
        self.booking.first_token(now)
        self._taken()
        self.gateway.observer.first_token(self.flight.timed, load, now)
        self.gateway.look_at_queue()

    def finished(self, finished: FinishedRequest) -> None:
        if self.flight.timed.is_streamed:
            self.settle()
            self.booking.paced(finished.output_tokens, self.gateway.now)
        else:
            self._first_byte()
            self.settle(finished.output_tokens)
        self._succeeded()
        self.gateway.served(self.flight, self.booking.load, finished)

    def refused(self) -> None:
        """The request is wrong: whoever judges it so is well."""
        self.settle()
        self.gateway.blame(self.flight.suspects.served())
        self._taken()
        self._succeeded()
        self.gateway.end(self.flight, "refused")

    def answered(self, status: int, rest_s: float | None) -> None:
        self.settle()
        if not blame.is_suspect(status):
            self.gateway.blame(self.flight.suspects.served())
            self._taken()
            self._succeeded()
            self.gateway.end(self.flight, "failed")
        else:
            self.gateway.rejected(self.flight, self.booking.load, status, rest_s)

    def _taken(self) -> None:
        """The endpoint answers on the merits."""
        load, now = self.booking.load, self.gateway.now
        if load.suspect_until > now:
            load.answered(now, self.sent_s)

    def _succeeded(self) -> None:
        load = self.booking.load
        if load.failures_in_row:
            load.succeeded(self.gateway.now, self.sent_s)

    def broken(self, cut_off: FinishedRequest | None) -> None:
        self.settle()
        self.gateway.failed(self.flight, self.booking.load, cut_off)

    def is_late(self, silent_s: float) -> bool:
        load, now = self.booking.load, self.gateway.now
        is_streamed = self.flight.timed.is_streamed
        return silent_s > self.gateway.evidence.long_silence_s(is_streamed, load.policy.hang_s, now)

    def leave(self) -> None:
        if self.gateway.may_retry(self.flight):
            self.endpoint.cancel(self.flight.request_id)
            self.settle()
            self.gateway.attempt(self.flight)
