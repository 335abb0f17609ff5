"""The gateway in front of the engines: picks, bookings, retries and health, by the gateway's own parts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from headgate import routing, scheduling
from headgate.fleet import (
    ACCEPTED_AFTER_S,
    Booking,
    EndpointState,
    Evidence,
    RetryBudget,
    Suspect,
    adapters,
    blame,
)
from headgate.fleet.prefix import PrefixIndex
from headgate.simulator.fleet.attempts import Attempt
from headgate.simulator.fleet.description import FleetDescription
from headgate.simulator.fleet.endpoint import SimulatedEndpoint
from headgate.simulator.fleet.flight import Flight
from headgate.simulator.fleet.observer import Observer
from headgate.simulator.fleet.pairs import PairedAttempt
from headgate.simulator.fleet.records import Outcome, RequestRecord
from headgate.simulator.fleet.timeline import Timeline
from headgate.simulator.fleet.transfers import SharedLink
from headgate.simulator.fleet.waiting_room import WaitingRoom
from headgate.simulator.model import FinishedRequest
from headgate.simulator.traces import TimedRequest

NOT_FOUND = 404
PAIR_GROUP = "fleet"


class SimulatedGateway:
    """Has a record for each request that came and has ended."""

    def __init__(
        self,
        description: FleetDescription,
        policy: scheduling.Policy,
        rng: random.Random,
        timeline: Timeline,
        endpoints: Iterable[SimulatedEndpoint],
        prefixes: PrefixIndex,
        observer: Observer,
        answered: Callable[[TimedRequest], None],
        waits: Callable[[], None],
    ) -> None:
        """`answered` is told each request whose client has all that it gets; `waits` that any are waiting."""
        self.observer = observer
        self.budget = RetryBudget(timeline.now, description.retry_budget)
        self.evidence = Evidence()
        self._answered = answered
        self.records: dict[int, RequestRecord] = {}
        self.unfinished = 0
        self._description = description
        self._policy = policy
        self._rng = rng
        self._timeline = timeline
        self._endpoints: Mapping[EndpointState, SimulatedEndpoint] = {each.load: each for each in endpoints}
        self._pool = [load for load, endpoint in self._endpoints.items() if endpoint.is_ready]
        self._decoding = policy if policy.judges_decoding else scheduling.LeastDecoding(prefixes)
        self._pairs = self._make_pairs() if description.is_paired else None
        self._terms = scheduling.Terms(remote_tokens=description.remote_tokens)
        self._link = SharedLink(timeline, description.link_bytes_per_s, description.link_latency_s)
        self._prefixes = prefixes
        self._room: WaitingRoom | None = None
        if description.flow is not None:
            self._room = WaitingRoom(
                description.flow,
                description.capacity,
                rng,
                timeline,
                prefixes,
                self.attempt,
                self._dropped,
                waits,
            )
            self._room.follow(self._pool, self._phases())

    @property
    def now(self) -> float:
        return self._timeline.now

    def follow_readiness(self) -> None:
        """The pool is those of the endpoints that are ready."""
        self._pool = [load for load, endpoint in self._endpoints.items() if endpoint.is_ready]
        if self._pairs is not None:
            self._pairs = self._make_pairs()
        if self._room is not None:
            self._room.follow(self._pool, self._phases())

    def look_at_queue(self) -> None:
        """Something has happened by which there may be room for one that waits."""
        if self._room is not None:
            self._room.look()

    def arrive(self, number: int, timed: TimedRequest) -> None:
        """A client sends a request."""
        self.unfinished += 1
        self.budget.requests += 1
        flight = Flight(number, timed)
        if self._room is None:
            self.attempt(flight)
        else:
            self._room.arrive(flight)

    # -- for attempts

    def settle(self, flight: Flight, booking: Booking, answer_tokens: int | None = None) -> None:
        """The endpoint owes nothing more for the request; `answer_tokens` of a complete answer."""
        booking.end(self.now, answer_tokens)
        self._endpoints[booking.load].used_s = self.now
        self.observer.ended(flight.timed, booking.load, self.now)

    def rejected(self, flight: Flight, load: EndpointState, status: int, rest_s: float | None) -> None:
        """The endpoint answered with a status that may be its own fault: what another answers tells."""
        adapter = flight.timed.adapter
        if status == NOT_FOUND and adapter:
            self._lacks(flight, load, adapter)
            return
        back_at = load.rests(self.now, rest_s) if rest_s is not None else None
        is_retried, failed = flight.suspects.rejected(
            load,
            status,
            back_at,
            self.evidence.shared,
            lambda: (status, adapter),
            partial(self.may_retry, flight),
            self.now,
        )
        self.blame(failed)
        if is_retried:
            self.attempt(flight)
        else:
            self.end(flight, "failed")

    def _lacks(self, flight: Flight, load: EndpointState, adapter: str) -> None:
        """A 404 for an adapter: the endpoint is well, and the request goes where the adapter may be."""
        load.lacks(adapter, self.now)
        others = (other for other in self._pool if self._may_be_asked(other, flight))
        is_elsewhere = any(adapters.place(other, adapter) != "unknown" for other in others)
        if is_elsewhere and self.may_retry(flight, blame.RESERVED):
            self.attempt(flight)
        else:
            self.end(flight, "failed")

    def suspect_prefill(self, flight: Flight, load: EndpointState, status: int, rest_s: float | None) -> None:
        """What the request comes to elsewhere tells whether the rejection was the endpoint's own fault."""
        if status == NOT_FOUND and flight.timed.adapter:
            load.lacks(flight.timed.adapter, self.now)
        elif blame.is_suspect(status):
            back_at = load.rests(self.now, rest_s) if rest_s is not None else None
            flight.suspects.add(load, status, self.now, back_at, is_prefill=True)

    def blame(self, suspects: Iterable[Suspect]) -> None:
        """Counts the failures of endpoints that were found to be at fault."""
        for each in suspects:
            self._count(each.load, each.reason)

    def failed(self, flight: Flight, load: EndpointState, cut_off: FinishedRequest | None) -> None:
        """The endpoint gave no answer, or a part of one: another is tried if the client has got nothing."""
        self._count(load, "reset")
        self.again_or_failed(flight, cut_off)

    def again_or_failed(self, flight: Flight, cut_off: FinishedRequest | None = None) -> None:
        if flight.first_token_s is None and self.may_retry(flight):
            self.attempt(flight)
        else:
            self.end(flight, "failed", cut_off)

    def _count(self, load: EndpointState, reason: str) -> None:
        self.evidence.failed(load, reason, self.now, self.budget.requests + self.budget.granted)

    def may_retry(self, flight: Flight, reserved: float = 0.0) -> bool:
        """Whether there are attempts left, somebody else to ask, and a retry to spare besides those reserved,
        which is spent."""
        return (
            flight.attempts <= self._description.retries
            and any(self._may_be_asked(load, flight) for load in self._pool)
            and self.budget.take(self.now, reserved)
        )

    def _may_be_asked(self, load: EndpointState, flight: Flight) -> bool:
        return (
            load not in flight.tried
            and load.resting_until <= self.now
            and load.requests < self._description.max_requests
            and self._endpoints[load].group.role != "prefill"
        )

    def served(self, flight: Flight, load: EndpointState, finished: FinishedRequest) -> None:
        """An endpoint has given the whole answer to a prompt that it had prefilled."""
        prefix, timed = flight.scheduled.prefix, flight.timed
        if prefix:
            tokens = timed.prompt_tokens + finished.output_tokens
            self._prefixes.answered(prefix, load, tokens / timed.block_tokens)
        self.end(flight, "served", finished)

    def end(self, flight: Flight, outcome: Outcome, finished: FinishedRequest | None = None) -> None:
        """The client has all that it gets."""
        self.blame(flight.suspects.compare(0))
        self.records[flight.number] = flight.record(outcome, self.now, finished)
        self.unfinished -= 1
        self._answered(flight.timed)
        if self._room is not None:
            self._room.ended(flight, finished)
            self._room.look()

    def _dropped(self, flight: Flight, why: str) -> None:
        """It had no turn."""
        self.records[flight.number] = flight.record("refused", self.now, None, why)
        self.unfinished -= 1
        self._answered(flight.timed)

    # -- attempts

    def attempt(self, flight: Flight) -> None:
        """Sends a request to an endpoint that it has not had."""
        if flight.sent_s is None:
            flight.sent_s = self.now
        attempt = self._pick(flight) if self._pairs is None else self._pick_pair(flight, self._pairs)
        if attempt is None:
            self.end(flight, "failed" if flight.attempts else "refused")
            return
        if flight.suspects.are_open:
            at_s = self.now + ACCEPTED_AFTER_S
            accepted = partial(self._accepted, flight, flight.attempts)
            self._timeline.at(at_s, accepted, is_awaited=False)
        attempt.start()

    def _accepted(self, flight: Flight, attempts: int) -> None:
        """An endpoint that still works on a request has not rejected it."""
        if flight.attempts == attempts and flight.number not in self.records:
            suspects = flight.suspects
            self.blame(suspects.prefilled() if flight.prefill is not None else suspects.served())

    def _pick(self, flight: Flight) -> Attempt | None:
        choice = scheduling.pick(
            self._policy,
            flight.scheduled,
            self._pool,
            self.now,
            self._rng,
            flight.tried,
            self._description.max_requests,
        )
        return self._alone(flight, flight.scheduled, choice) if choice is not None else None

    def _pick_pair(self, flight: Flight, pairs: scheduling.Pairs) -> Attempt | None:
        pair = scheduling.pick_pair(
            self._policy,
            self._decoding,
            flight.scheduled,
            pairs,
            self._terms,
            self.now,
            self._rng,
            flight.tried,
            flight.tried_prefill,
            self._description.max_requests,
        )
        if pair is None:
            return None
        if pair.prefill is None or pair.prefill_request is None:
            return self._alone(flight, pair.request, pair.decode)
        self._choose(flight, pair.decode)
        flight.prefill = pair.prefill
        booking = pair.decode.load.book(
            0, pair.request.output_tokens, self.now, is_streamed=False, adapter=pair.request.adapter
        )
        self._decoding.booked(pair.request, pair.decode, self.now)
        self.observer.sent(flight.timed, pair.decode.load, self.now)
        uncached_tokens = max(flight.timed.prompt_tokens - pair.prefill.cached_tokens, 0)
        prefill_booking = pair.prefill.load.book(uncached_tokens, 0, self.now, adapter=pair.request.adapter)
        self._policy.booked(pair.prefill_request, pair.prefill, self.now)
        self.observer.sent(flight.timed, pair.prefill.load, self.now)
        return PairedAttempt(
            self,
            flight,
            self._endpoints[pair.decode.load],
            booking,
            self._endpoints[pair.prefill.load],
            prefill_booking,
            self._link,
        )

    def _alone(self, flight: Flight, request: scheduling.Request, choice: scheduling.Choice) -> Attempt:
        """One endpoint does all of it."""
        self._choose(flight, choice)
        flight.prefill = None
        load = choice.load
        uncached_tokens = max(flight.timed.prompt_tokens - choice.cached_tokens, 0)
        booking = load.book(
            uncached_tokens,
            request.output_tokens,
            self.now,
            flight.timed.is_streamed,
            request.adapter,
        )
        self._policy.booked(request, choice, self.now)
        self.observer.sent(flight.timed, load, self.now)
        return Attempt(self, flight, self._endpoints[load], booking)

    def _choose(self, flight: Flight, choice: scheduling.Choice) -> None:
        flight.choice = choice
        flight.attempts += 1
        flight.tried.append(choice.load)

    def _make_pairs(self) -> scheduling.Pairs:
        phases = self._phases()
        assert phases is not None
        return scheduling.Pairs(self._pool, phases)

    def _phases(self) -> routing.PrefillDecode | None:
        """What each endpoint does, where prefill and decode are apart."""
        if not self._description.is_paired:
            return None
        roles = {
            load.endpoint: routing.Role(
                prefills=self._endpoints[load].group.role != "decode",
                decodes=self._endpoints[load].group.role != "prefill",
                group=PAIR_GROUP,
            )
            for load in self._pool
        }
        return routing.PrefillDecode(connector="nixl", roles=roles)
