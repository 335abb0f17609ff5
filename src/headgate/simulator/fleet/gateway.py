"""The gateway in front of the engines: picks, bookings, retries and health, by the gateway's own parts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping

from headgate import routing, scheduling
from headgate.fleet import Booking, EndpointLoad, RetryBudget
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

RETRIED = frozenset({502, 503, 504})
"""Answers that say to try elsewhere; others are the client's."""
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
        self._answered = answered
        self.records: dict[int, RequestRecord] = {}
        self.unfinished = 0
        self._description = description
        self._policy = policy
        self._rng = rng
        self._timeline = timeline
        self._endpoints: Mapping[EndpointLoad, SimulatedEndpoint] = {each.load: each for each in endpoints}
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
                self._attempt,
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
            self._attempt(flight)
        else:
            self._room.arrive(flight)

    # -- for attempts

    def settle(self, flight: Flight, booking: Booking) -> None:
        """The endpoint owes nothing more for the request."""
        booking.end(self.now)
        self._endpoints[booking.load].used_s = self.now
        self.observer.ended(flight.timed, booking.load, self.now)

    def is_retried(self, status: int) -> bool:
        return status in RETRIED

    def answered(self, flight: Flight, load: EndpointLoad, status: int) -> None:
        """The endpoint answered with an error."""
        if self.is_retried(status):
            self.failed(flight, load, None)
        else:
            self.end(flight, "failed")

    def failed(self, flight: Flight, load: EndpointLoad, cut_off: FinishedRequest | None) -> None:
        """The endpoint gave no answer, or a part of one: another is tried if the client has got nothing."""
        load.failed(self.now)
        if flight.first_token_s is None and self._may_retry(flight):
            self._attempt(flight)
        else:
            self.end(flight, "failed", cut_off)

    def _may_retry(self, flight: Flight) -> bool:
        """Whether there are attempts left, somebody else to ask, and a retry to spare, which is spent."""
        return (
            flight.attempts <= self._description.retries
            and any(self._may_be_asked(load, flight) for load in self._pool)
            and self.budget.take(self.now)
        )

    def _may_be_asked(self, load: EndpointLoad, flight: Flight) -> bool:
        return (
            load not in flight.tried
            and load.requests < self._description.max_requests
            and self._endpoints[load].group.role != "prefill"
        )

    def served(self, flight: Flight, load: EndpointLoad, finished: FinishedRequest) -> None:
        """An endpoint has given the whole answer to a prompt that it had prefilled."""
        prefix, timed = flight.scheduled.prefix, flight.timed
        if prefix:
            tokens = timed.prompt_tokens + finished.output_tokens
            self._prefixes.answered(prefix, load, tokens / timed.block_tokens)
        self.end(flight, "served", finished)

    def end(self, flight: Flight, outcome: Outcome, finished: FinishedRequest | None = None) -> None:
        """The client has all that it gets."""
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

    def _attempt(self, flight: Flight) -> None:
        if flight.sent_s is None:
            flight.sent_s = self.now
        attempt = self._pick(flight) if self._pairs is None else self._pick_pair(flight, self._pairs)
        if attempt is None:
            self.end(flight, "failed" if flight.attempts else "refused")
        else:
            attempt.start()

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
