"""Capacity by predicted work: engines get enough to do, and everything else queues here."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from headgate.fleet import EndpointState
from headgate.flow.capacity.capacity import Capacity
from headgate.flow.capacity.ceilings import Ceilings
from headgate.flow.capacity.slots import Slots
from headgate.routing import PrefillDecode

TARGET_S = 0.2
LATE_S = 0.001
"""Margin after the computed time: floating-point sums of times are not exact to the last bit."""
DELAYS_AHEAD = 40.0
STEP_TOKENS = 1024
"""If an engine's steps start few prompts, it spends much of its time on the fixed cost of steps. So the
target grows where short prompts take long: up to this many delays of an idle engine, whose delay contains
that cost. The growth is smaller the faster the engine prefills STEP_TOKENS, which fill half of a step."""
DECODING_SHARE = 8 / 9
"""Above this share of requests past their prefill, responses are long: those fill the engine's steps, and
others may wait for one of them to end."""
WITHOUT_READING = 256
"""Limit of requests on an endpoint without readings: vLLM's usual batch limit."""


class PredictedWork(Capacity):
    """A pool has capacity while some endpoint is predicted to start a request within a target, or its
    engine's readings show that it could take one, and it has no more requests than its engine can work on.

    The prediction comes from the ledger, so it follows each request at once and works without readings. It
    applies to streams, whose first tokens correct it. Nothing corrects it for prompts of unstreamed
    responses: an endpoint may have as many of those as its engine has shown to take (`Slots`), whatever the
    ledger predicts. The saturation is that of the least loaded endpoint.

    Missing knowledge blocks nothing. Before the first token was seen, the prefill rate is a guess, and only
    requests are counted; an endpoint without requests in flight always has capacity. Sheddable requests alone
    get none while an engine reports queued requests, no matter who sent them: more important ones must not
    starve beside another gateway.
    """

    def __init__(
        self,
        ceilings: Ceilings | None = None,
        *,
        target_s: float = TARGET_S,
        without_reading: int = WITHOUT_READING,
        max_requests: int = sys.maxsize,
    ) -> None:
        """`target_s`: the longest queue of an endpoint whose steps are full; that of others is longer in
        proportion. `max_requests`: limit of each endpoint in any case."""
        super().__init__(ceilings)
        self._target_s = target_s
        self._without_reading = without_reading
        self.max_requests = max_requests
        self._slots: dict[EndpointState, Slots] = {}
        self._resting: dict[EndpointState, Slots] = {}

    def follow(
        self,
        loads: Sequence[EndpointState],
        phases: PrefillDecode | None = None,
        resting: Sequence[EndpointState] = (),
    ) -> None:
        super().follow(loads, phases, resting)
        known = self._slots | self._resting
        self._slots = {load: known.get(load) or Slots(load, self._without_reading) for load in loads}
        self._resting = {load: known[load] for load in resting if load in known}

    def has_room(self, priority: int, now: float) -> bool:
        ceiling = self.ceilings.fixed
        if ceiling is None:
            return super().has_room(priority, now)
        # Called for every request: the first endpoint with capacity is enough, and calls are avoided. It must
        # agree with `_queue_share`; the time until `busy_until` is the least that the ledger can predict.
        soon = now + self._target_s * ceiling
        is_short: bool | None = None
        for load, slots in self._slots.items():
            requests = load.requests
            if load.reading is not slots.reading:
                slots.follow()
            if priority < 0 and slots.makes_wait():
                continue
            if not requests:
                return True
            if requests >= slots.bound * ceiling or requests >= self.max_requests:
                continue
            if load.suspect_until > now:
                is_short = self._is_short(now) if is_short is None else is_short
                if not is_short or load.away_until > now:
                    continue
            estimator = load.estimator
            rates = estimator.rates
            if not rates.observations:
                return True
            is_simple = now <= estimator.is_simple_until
            if is_simple and estimator.busy_until < soon:
                return True
            target_s = self._target_of(load) * ceiling
            if estimator.busy_until < now + target_s and (is_simple or estimator.queue_s(now) < target_s):
                return True
            if (
                (is_simple or not estimator.awaits_first_token)
                and requests < slots.evident * ceiling
                and load.unseen_tokens < slots.evident_tokens * ceiling
                and (load.prefill_tokens - load.unseen_tokens) * rates.token_s < target_s
            ):
                return True
        return False

    def why_full(self, priority: int, now: float) -> str:
        for load, slots in self._slots.items():
            if load.reading is not slots.reading:
                slots.follow()
        waiting = sum(slots.makes_wait() for slots in self._slots.values()) if priority < 0 else 0
        if not waiting:
            return super().why_full(priority, now)
        engines = f"requests wait in {waiting} of {len(self._slots)} engines"
        told = f"{engines}, so these get none of a priority below 0"
        return (
            told if waiting == len(self._slots) else f"{told}; its saturation is {self.saturation(now):.2f}"
        )

    def room_at(self, priority: int, now: float) -> float:
        if not self.loads:
            return math.inf
        ceiling = self.ceiling(priority, now)
        at = super().room_at(priority, now)
        for load, slots in self._slots.items():
            if load.requests < min(slots.bound * ceiling, self.max_requests):
                room_at = load.estimator.busy_until - self._target_of(load) * ceiling
                if room_at + LATE_S > now and self._queue_share(load, slots, now) > 0.0:
                    at = min(at, room_at + LATE_S)
        return at

    def saturation(self, now: float) -> float:
        is_short = self._is_short(now)
        return min((self._fullness(load, now, is_short) for load in self.loads), default=1.0)

    def _is_short(self, now: float) -> bool:
        """Whether less than half of the endpoints are healthy. Then suspicious ones that are not ejected keep
        their capacity, as they keep their share of the requests."""
        return 2 * sum(load.suspect_until <= now for load in self._slots) < len(self._slots)

    def is_stale(self, load: EndpointState, now: float) -> bool:
        return load.reading is None

    def by_endpoint(self, now: float) -> dict[str, float]:
        """Saturation of each endpoint, by its name; for explanations."""
        is_short = self._is_short(now)
        return {load.endpoint.name: self._fullness(load, now, is_short) for load in self.loads}

    def _fullness(self, load: EndpointState, now: float, is_short: bool) -> float:
        if not load.requests:
            return 0.0
        slots = self._slots[load]
        if load.reading is not slots.reading:
            slots.follow()
        most = min(slots.bound, self.max_requests)
        fullness = max(self._queue_share(load, slots, now), load.requests / most)
        is_barred = load.suspect_until > now and (not is_short or load.away_until > now)
        return max(fullness, 1.0) if is_barred else fullness

    def _target_of(self, load: EndpointState) -> float:
        """The longest allowed queue of an endpoint, in seconds."""
        if load.decoding > DECODING_SHARE * load.requests:
            return self._target_s
        rates = load.estimator.rates
        delays_s, step_s = DELAYS_AHEAD * rates.delay_s, STEP_TOKENS * rates.token_s
        fills_steps_s = delays_s * step_s / (delays_s + step_s)
        return self._target_s * max(fills_steps_s / TARGET_S, 1.0)

    def _queue_share(self, load: EndpointState, slots: Slots, now: float) -> float:
        """The queue as a share of the longest allowed one: by the ledger's prediction or the engine's
        readings, whichever is less."""
        estimator = load.estimator
        rates = estimator.rates
        if not rates.observations:
            return 0.0
        target_s = self._target_of(load)
        expected = estimator.queue_s(now) / target_s
        if now > estimator.is_simple_until and estimator.awaits_first_token:
            return expected
        shown = max(
            load.requests / slots.evident,
            load.unseen_tokens / slots.evident_tokens,
            (load.prefill_tokens - load.unseen_tokens) * rates.token_s / target_s,
        )
        return min(expected, shown)
