"""One attempt to serve a request on one endpoint, from its booking to what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.fleet import Booking
from headgate.simulator.fleet.endpoint import SimulatedEndpoint
from headgate.simulator.fleet.flight import Flight
from headgate.simulator.model import FinishedRequest

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

    def start(self) -> None:
        """Asks the endpoint."""
        self.endpoint.send(self.flight.asked(self.endpoint.config), self)

    def settle(self) -> None:
        """Ends the booking."""
        self.gateway.settle(self.flight, self.booking)

    # -- what the endpoint tells

    def first_token(self) -> None:
        if self.flight.timed.is_streamed:
            self._first_byte()

    def _first_byte(self) -> None:
        """The gateway sees something of the answer."""
        now, load = self.gateway.now, self.booking.load
        self.flight.first_token_s = now
        self.booking.first_token(now)
        if load.failures_in_row:
            load.answered(now)
        self.gateway.observer.first_token(self.flight.timed, load, now)
        self.gateway.look_at_queue()

    def finished(self, finished: FinishedRequest) -> None:
        if self.flight.timed.is_streamed:
            self.settle()
            self.booking.paced(finished.output_tokens, self.gateway.now)
        else:
            self._first_byte()
            self.settle()
        load = self.booking.load
        if load.failures_in_row:
            load.succeeded(self.gateway.now)
        self.gateway.served(self.flight, load, finished)

    def refused(self) -> None:
        self.settle()
        self.gateway.end(self.flight, "refused")

    def answered(self, status: int) -> None:
        self.settle()
        self.gateway.answered(self.flight, self.booking.load, status)

    def broken(self, cut_off: FinishedRequest | None) -> None:
        self.settle()
        self.gateway.failed(self.flight, self.booking.load, cut_off)
