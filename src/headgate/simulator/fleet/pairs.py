"""An attempt on two endpoints: one prefills the prompt and hands its cache over, the other answers.

The endpoint that answers is asked once the cache is there. If the one that prefills dies while it hands the
cache over, or does not want the request, the prompt is computed where it is answered, as vLLM does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.fleet import Booking
from headgate.simulator.fleet.attempts import Attempt
from headgate.simulator.fleet.endpoint import SimulatedEndpoint
from headgate.simulator.fleet.flight import Flight
from headgate.simulator.fleet.transfers import SharedLink, Transfer
from headgate.simulator.model import FinishedRequest

if TYPE_CHECKING:
    from headgate.simulator.fleet.gateway import SimulatedGateway


class PairedAttempt(Attempt):
    """Listens to the endpoint that answers; `prefill` listens to the other."""

    def __init__(
        self,
        gateway: SimulatedGateway,
        flight: Flight,
        endpoint: SimulatedEndpoint,
        booking: Booking,
        prefill: SimulatedEndpoint,
        prefill_booking: Booking,
        link: SharedLink,
    ) -> None:
        super().__init__(gateway, flight, endpoint, booking)
        self.prefilled_s: float | None = None
        """When the prompt was prefilled; None as long as it is not, or has to be here."""
        self.prefill = Prefill(self, prefill, prefill_booking, link)

    def start(self) -> None:
        self.endpoint.watch(self)
        self.prefill.start()

    def answer(self, received_tokens: int) -> None:
        """The prompt is here, or, with 0 tokens, is to be computed here."""
        if not received_tokens:
            self.prefilled_s = None
        self.endpoint.unwatch(self)
        self.ask(self.flight.asked(self.endpoint.config, received_tokens=received_tokens))

    def first_token(self) -> None:
        choice = self.flight.choice
        if self.prefilled_s is not None and choice is not None:
            fetched = max(self.flight.timed.prompt_tokens - choice.cached_tokens, 0)
            took_s = self.gateway.now - self.prefilled_s
            self.booking.load.estimator.rates.pool.learn_handover(fetched, took_s)
        super().first_token()

    def prefill_failed(self, status: int | None = None, rest_s: float | None = None) -> None:
        """The endpoint that was to answer is not to blame, and may be asked again. A status of the one that
        prefills is its fault if another does it."""
        self.endpoint.unwatch(self)
        self.settle()
        self._leave_both()
        if status is None:
            self.gateway.failed(self.flight, self.prefill.booking.load, None)
            return
        self.gateway.suspect_prefill(self.flight, self.prefill.booking.load, status, rest_s)
        self.gateway.again_or_failed(self.flight)

    def may_leave(self) -> bool:
        """Whether another pair may be asked, as the endpoint that prefills is stopped."""
        self._leave_both()
        if self.gateway.may_retry(self.flight):
            return True
        self.flight.tried.append(self.booking.load)
        self.flight.tried_prefill.remove(self.prefill.booking.load)
        return False

    def prefill_left(self) -> None:
        self.endpoint.unwatch(self)
        self.settle()
        self.gateway.attempt(self.flight)

    def _leave_both(self) -> None:
        self.flight.tried.remove(self.booking.load)
        self.flight.tried_prefill.append(self.prefill.booking.load)

    def gone(self) -> None:
        """The endpoint that was to answer died before it was asked."""
        self.prefill.give_up()
        self.broken(None)


class Prefill:
    """Listens to the endpoint that prefills; then hands the cache over."""

    def __init__(
        self, attempt: PairedAttempt, endpoint: SimulatedEndpoint, booking: Booking, link: SharedLink
    ) -> None:
        self.booking = booking
        self._attempt = attempt
        self._endpoint = endpoint
        self._link = link
        self._request = attempt.flight.asked(endpoint.config, output_tokens=1, keeps_kv=True)
        self._transfer: Transfer | None = None
        self._is_given_up = False
        self._sent_s = attempt.gateway.now

    def start(self) -> None:
        self._endpoint.send(self._request, self)

    def give_up(self) -> None:
        """Nobody wants the cache any more."""
        self._is_given_up = True
        if self._transfer is not None:
            self._end_transfer(self._transfer)
        else:
            self._settle()
            self._endpoint.cancel(self._request.request_id)

    # -- what the endpoint tells

    def first_token(self) -> None:
        self.booking.first_token(self._attempt.gateway.now)
        self._attempt.gateway.look_at_queue()

    def finished(self, finished: FinishedRequest) -> None:
        self._settle()
        gateway = self._attempt.gateway
        gateway.evidence.prefills.note(gateway.now - self._sent_s)
        gateway.blame(self._attempt.flight.suspects.prefilled())
        self._succeeded()
        self._attempt.prefilled_s = gateway.now
        target = self._attempt.endpoint
        there = target.cached_tokens(self._attempt.flight.asked(target.config))
        size = (finished.prompt_tokens - there) * self._endpoint.config.kv_bytes_per_token
        self._endpoint.watch(self)
        self._transfer = self._link.begin(size, self._handed_over)

    def refused(self) -> None:
        self._settle()
        self._attempt.answer(received_tokens=0)

    def answered(self, status: int, rest_s: float | None) -> None:
        """Where the request may be wrong, the endpoint that answers has the last word."""
        self._settle()
        if status >= 500 or rest_s is not None:
            self._attempt.prefill_failed(status, rest_s)
            return
        self._attempt.gateway.suspect_prefill(self._attempt.flight, self.booking.load, status, None)
        self._attempt.answer(received_tokens=0)

    def broken(self, cut_off: FinishedRequest | None) -> None:
        if not self._is_given_up:
            self._settle()
            self._attempt.prefill_failed()

    def is_late(self, silent_s: float) -> bool:
        gateway, hang_s = self._attempt.gateway, self.booking.load.policy.hang_s
        return silent_s > gateway.evidence.long_prefill_s(hang_s, gateway.now)

    def leave(self) -> None:
        if self._attempt.may_leave():
            self._endpoint.cancel(self._request.request_id)
            self._settle()
            self._attempt.prefill_left()

    def _succeeded(self) -> None:
        load, now = self.booking.load, self._attempt.gateway.now
        if load.suspect_until > now:
            load.answered(now, self._sent_s)
        if load.failures_in_row:
            load.succeeded(now, self._sent_s)

    def gone(self) -> None:
        """It died while it handed the cache over."""
        assert self._transfer is not None
        self._end_transfer(self._transfer)
        self._attempt.answer(received_tokens=0)

    # -- the transfer

    def _handed_over(self) -> None:
        assert self._transfer is not None
        self._end_transfer(self._transfer)
        self._attempt.answer(received_tokens=self._request.prompt_tokens)

    def _end_transfer(self, transfer: Transfer) -> None:
        self._link.give_up(transfer)
        self._endpoint.unwatch(self)
        self._endpoint.release_kv(self._request.request_id)

    def _settle(self) -> None:
        self._attempt.gateway.settle(self._attempt.flight, self.booking)
