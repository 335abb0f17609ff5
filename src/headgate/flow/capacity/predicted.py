"""Room by predicted work: engines have enough to do, and what waits for them waits here."""

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
"""Room that time makes is looked for so much later: to the last bit, sums of times are not what they say."""
DELAYS_AHEAD = 40.0
STEP_TOKENS = 1024
"""An engine whose steps begin few prompts spends much of its time on what each step takes anyway. So the
target is longer where short prompts take long: up to so many delays of an idle engine, which has that in it,
and less the sooner so many tokens, which fill half of a step, are prefilled."""
DECODING_SHARE = 8 / 9
"""Where so many of its requests are past their prefill, answers are long: those fill its steps, and others
may wait for one of them to end."""
WITHOUT_READING = 256
"""Requests that an endpoint may have which says nothing of itself: vLLM's usual bound of a batch."""


class PredictedWork(Capacity):
    """There is room while some endpoint is predicted to take up a request within a target, or its engine
    has shown that it could take one, and it has not more requests than its engine can work on.

    The prediction is the ledger's, so that it follows each request at once, and goes on where engines are not
    read. It counts for streams, whose first tokens correct it. For prompts whose answers are not streamed
    nothing would: of these, an endpoint may have what its engine has shown (`Slots`), whatever the ledger
    expects. The saturation is that of the least loaded endpoint.

    What is not known holds nobody up. Before a first token was ever seen the rate of prefill is a guess, and
    requests alone are counted; and an endpoint with nothing in flight always has room. Only sheddable
    requests find none where an engine says that requests wait in it, whoever sent them: what matters more
    must not starve beside another gateway, and they may.
    """

    def __init__(
        self,
        ceilings: Ceilings | None = None,
        *,
        target_s: float = TARGET_S,
        without_reading: int = WITHOUT_READING,
        max_requests: int = sys.maxsize,
    ) -> None:
        """`target_s` is how long the queue of an endpoint may be whose steps it fills; others' are longer in
        proportion. `max_requests` is what each endpoint may have in any case."""
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
        # Asked for every request: the first endpoint with room is enough, and hardly anything is called. It
        # says what `_queue_share` does; the time until `busy_until` is the least that the ledger expects.
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
        told = f"{engines}, so that these get none of a priority below 0"
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
        """Whether less than half of the endpoints is in good health. Those that are not ejected have their
        room all the same then, as they have their share of the requests."""
        return 2 * sum(load.suspect_until <= now for load in self._slots) < len(self._slots)

    def is_stale(self, load: EndpointState, now: float) -> bool:
        return load.reading is None

    def by_endpoint(self, now: float) -> dict[str, float]:
        """Of each endpoint, by its name; for explanations."""
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
        """How long its queue may be."""
        if load.decoding > DECODING_SHARE * load.requests:
            return self._target_s
        rates = load.estimator.rates
        delays_s, step_s = DELAYS_AHEAD * rates.delay_s, STEP_TOKENS * rates.token_s
        fills_steps_s = delays_s * step_s / (delays_s + step_s)
        return self._target_s * max(fills_steps_s / TARGET_S, 1.0)

    def _queue_share(self, load: EndpointState, slots: Slots, now: float) -> float:
        """Of the longest queue: what the ledger expects, or what the engine has shown, whichever is less."""
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
