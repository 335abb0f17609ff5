"""How long a request would wait for its first token on an endpoint: all that goes into it, in seconds.

    first token = queue + prefill + beside + adapter               (a Prediction has the terms)
    prefill     = uncached tokens * seconds per token + delay
    beside      = sequences that decode * what each adds to a step * steps that the prompt takes
    adapter     = the time to load it, where it is not loaded

Where another endpoint prefills, the one that answers has the handover of the KV cache instead of the prefill.

The queue is the work that was booked before it and not seen served, at the learned rate, less the time that
has passed since the endpoint took it up: a sum of open prompts alone overstates, as the endpoint works on the
first of them. Each first token that is seen corrects the clock: engines serve prompts in the order of their
arrival, so that what was booked before it is served, and what was booked after it is not.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from headgate.fleet.deviation import LEARNED_BY, Deviation
from headgate.fleet.kv_room import KvRoom
from headgate.fleet.prediction import Prediction
from headgate.fleet.rates import Rates

if TYPE_CHECKING:
    from headgate.fleet.ledger import Booking
    from headgate.fleet.reading import EngineReading

STEP_TOKENS = 2048
"""Prompts share steps until they have so many tokens together, and longer ones take several: what engines
have for a budget, if nothing else is said. Up to there, prompts are observed together, as their first tokens
come at once."""
USUAL_PROMPT_TOKENS = 1000.0
"""What a request of another gateway is taken for, until requests of ours have shown what is usual."""
USUAL_SHARE = 1 / 32


class Estimator:
    """The clock of one endpoint. Told of bookings, first tokens and ends; each costs the same at any load."""

    __slots__ = (
        "_booked",
        "_booked_at",
        "_decoding_at",
        "_decoding_s",
        "_delay_s",
        "_deviation",
        "_group_s",
        "_group_starts",
        "_group_tokens",
        "_is_blurred",
        "_others_s",
        "_prefilled_s",
        "_prompt_tokens",
        "_read_at",
        "_served",
        "_shared",
        "_since",
        "_void",
        "_waiting",
        "busy_until",
        "decoding",
        "is_simple_until",
        "pause_s",
        "rates",
        "room",
    )

    def __init__(self) -> None:
        self.rates = Rates()
        """Shared with the pool, until it has shown that it is faster or slower than the others."""
        self.busy_until = -math.inf
        """When it will have prefilled all that was booked, while the first in its queue is not overdue."""
        self.is_simple_until = math.inf
        """Until then `busy_until` says all of the queue; later, or earlier where its cache is nearly full,
        `queue_s` has to be asked. One comparison tells the pick."""
        self.room = KvRoom()
        self.pause_s = math.inf
        """Seconds between the last two requests that were sent to it."""
        self.decoding = 0
        """Requests that are past their prefill. Of those that do not stream nothing is seen: all count."""
        self._decoding_s = 0.0
        self._prefilled_s = 0.0
        self._decoding_at = 0.0
        self._booked_at = -math.inf
        self._others_s = 0.0
        """Of its queue, what the last reading showed that is not ours: of other gateways."""
        self._read_at = -math.inf
        self._prompt_tokens = USUAL_PROMPT_TOKENS
        self._shared = self.rates
        self._deviation = Deviation()
        # Positions are in tokens booked since the beginning: what is between `_served` and `_booked` is owed,
        # less `_void`, which was given up; it was taken up at `_since`, with a delay if it was idle before.
        self._booked = 0
        self._served = 0
        self._void = 0
        self._since = -math.inf
        self._delay_s = 0.0
        self._waiting: deque[Booking] = deque()
        self._group_tokens = 0
        self._group_starts = 0
        self._group_s = 0.0
        self._is_blurred = False
        """Whether it is unknown how long the first in the queue takes: nothing is learned from that one."""

    def join(self, shared: Rates) -> None:
        """Learns with others, and from them, as long as it is not known to differ."""
        if self.rates is self._shared:
            self.rates = shared
        self._shared = shared

    # -- what is predicted

    @property
    def is_told(self) -> bool:
        """Whether the engine's own figures are a part of what is predicted; otherwise the ledger is all."""
        return self._read_at > -math.inf

    @property
    def awaits_first_token(self) -> bool:
        """Whether a stream is in its queue, whose first token will say how long that was."""
        return bool(self._waiting)

    def queue_s(self, now: float, uncached_tokens: float = 0.0) -> float:
        """Seconds until it would take up a request that comes now, of which so many tokens need room.

        If the first in the queue is overdue, it is expected to take as long again as it is late: nothing is
        known but that, and an endpoint that has stopped looks worse the longer it is silent.
        """
        queue_s = self.busy_until - now
        if queue_s < 0.0:
            queue_s = 0.0
        if now <= self.is_simple_until:
            return queue_s
        token_s = self._token_s()
        if now > (head_due := self._head_due(token_s)):
            queue_s = self.busy_until + now - 2.0 * head_due
        if self.room.total_tokens:
            waiting_tokens = queue_s / token_s
            queue_s = max(queue_s, self.room.wait_s(waiting_tokens + uncached_tokens, now))
        return queue_s

    def first_token_s(self, uncached_tokens: float, now: float, *, loads_adapter: bool = False) -> float:
        """Seconds until the first token of a request of which so many tokens are to be prefilled here, and
        whose adapter may have to be loaded before: the sum that `predicted` has in its parts."""
        rates = self.rates
        seconds = self.queue_s(now, uncached_tokens) + uncached_tokens * rates.token_s + rates.delay_s
        if self.decoding:
            seconds += self.decoding * rates.beside_s * (1.0 + uncached_tokens / STEP_TOKENS)
        return seconds + rates.pool.adapter_s if loads_adapter else seconds

    def predicted(self, uncached_tokens: float, now: float, *, loads_adapter: bool = False) -> Prediction:
        """The same in its parts."""
        rates = self.rates
        return Prediction(
            queue_s=self.queue_s(now, uncached_tokens),
            prefill_s=uncached_tokens * rates.token_s + rates.delay_s,
            beside_s=self.decoding * rates.beside_s * (1.0 + uncached_tokens / STEP_TOKENS),
            adapter_s=rates.pool.adapter_s if loads_adapter else 0.0,
        )

    def predicted_after_handover(
        self, fetched_tokens: float, now: float, *, loads_adapter: bool = False
    ) -> Prediction:
        """Seconds from the end of a prefill elsewhere to the first token here, of which so many tokens of KV
        cache are fetched."""
        pool = self.rates.pool
        return Prediction(
            queue_s=self.queue_s(now, fetched_tokens),
            adapter_s=pool.adapter_s if loads_adapter else 0.0,
            handover_s=pool.handover_s(fetched_tokens),
        )

    def _token_s(self) -> float:
        """Seconds for each token of the queue, beside what decodes now."""
        rates = self.rates
        return rates.token_s * (1.0 + self.decoding * rates.pool.beside_tokens / STEP_TOKENS)

    # -- what happens

    def booked(self, booking: Booking, now: float) -> None:
        """A request is on its way to the endpoint."""
        tokens = booking.uncached_tokens
        if not tokens and not booking.is_streamed and not booking.loads_adapter:
            booking.position = self._booked  # it was prefilled elsewhere
            self._decodes(1, now)
            return
        self._prompt_tokens += (tokens - self._prompt_tokens) * USUAL_SHARE
        self.pause_s = now - self._booked_at
        self._booked_at = now
        if self._served == self._booked or (not self._waiting and self.busy_until <= now):
            self._served, self._void, self._since = self._booked, 0, now
            self._delay_s = self.rates.delay_s
            self._is_blurred = self._others_s > 0.0
            self._close_group()
            self._group_starts = 1
        tokens += 1  # the first of the answer
        if booking.loads_adapter:
            tokens += int(self.rates.pool.adapter_s / self._token_s())
        booking.owed_tokens = tokens
        self._booked += tokens
        booking.position = self._booked
        if booking.is_streamed:
            self._waiting.append(booking)
        else:
            self._decodes(1, now)
        self._set_clock()

    def first_token(self, booking: Booking, now: float) -> None:
        """The first token of a streamed request is here: all before it is served, nothing after it."""
        if booking.position <= self._served:
            self._decodes(1, now)
            return
        waiting = self._waiting
        tokens, adapters = booking.position - self._served, 0
        while waiting and waiting[0].position <= booking.position:
            passed = waiting.popleft()
            if passed.is_over:
                self._void -= passed.owed_tokens
                tokens -= passed.owed_tokens
            elif passed.loads_adapter:
                adapters += 1
                tokens -= passed.owed_tokens - passed.uncached_tokens - 1
        self._observe(tokens, adapters, now)
        self._served, self._since, self._delay_s = booking.position, now, 0.0
        if self._group_tokens >= STEP_TOKENS:
            self._close_group()
        self._pass_given_up()
        self._decodes(1, now)
        self._set_clock()

    def _observe(self, tokens: int, adapters: int, now: float) -> None:
        """So many tokens were prefilled since the last first token, and adapters loaded. How long prefill
        takes by itself is learned: what decodes beside it is taken out."""
        rates, took_s = self.rates, now - self._since
        alone_s = self._delay_s + tokens * rates.token_s
        steps = tokens / STEP_TOKENS + (1.0 if self._delay_s else 0.0)
        took_s -= steps * self.decoding * rates.beside_s
        self._prefilled_s += alone_s
        if self._is_blurred:
            self._is_blurred = self._others_s > 0.0
            self._forget_group()
        elif adapters:
            rates.pool.learn_adapter((took_s - alone_s) / adapters)
            self._forget_group()
        else:
            self._group_tokens += tokens
            self._group_s += took_s

    def ended(self, booking: Booking, now: float) -> None:
        """A request is over. What it held in the cache is free, if it had its first token; if it streams and
        had none, its prompt is owed no more. With the last that is there, nothing is owed: of a prompt whose
        answer does not stream, however long it is, the end says that."""
        if booking.is_prefilled:
            self.room.give_back(booking.uncached_tokens + 1, now)
        if booking.is_prefilled or not booking.is_streamed:
            self._decodes(-1, now)
            if not self.decoding and not self._waiting:
                self._served, self._void, self._delay_s = self._booked, 0, 0.0
            if self._waiting or self.busy_until > now:
                self._set_clock()
        elif booking.position > self._served:
            self._void += booking.owed_tokens
            if self._pass_given_up():
                self._is_blurred = True
            self._set_clock()

    def _decodes(self, more: int, now: float) -> None:
        """One sequence more is decoded from now on, or one less."""
        self._decoding_s += self.decoding * (now - self._decoding_at)
        self._decoding_at = now
        self.decoding += more

    def so_far(self, now: float) -> tuple[float, float]:
        """Two sums since the beginning, which differ by what was there in between: of the number that decodes
        over time, and of the seconds that prefill took, as far as it is."""
        prefilled_s = self._prefilled_s
        if self._waiting:
            head_tokens = self._waiting[0].position - self._served
            prefilled_s += min(now - self._since, self._delay_s + head_tokens * self.rates.token_s)
        return self._decoding_s + self.decoding * (now - self._decoding_at), prefilled_s

    def read(self, reading: EngineReading | None, own_requests: int) -> None:
        """What the engine said of itself while it had so many requests of ours; None is nothing any more.

        What waits there and is not ours is taken for as long as ours usually are.
        """
        self._others_s, self._read_at = 0.0, -math.inf
        if reading is None:
            self.room.unknown()
            self._set_clock()
            return
        self._read_at = reading.at
        if reading.waiting and reading.running is not None:
            others = min(reading.waiting, max(0, reading.waiting + reading.running - own_requests))
            self._others_s = others * self._prompt_tokens * self._token_s()
            self._is_blurred = self._is_blurred or others > 0
        if reading.kv_usage is None or not reading.blocks or not reading.block_tokens:
            self.room.unknown()
        else:
            self.room.read(reading.blocks * reading.block_tokens, reading.kv_usage)
        self._set_clock()

    def _pass_given_up(self) -> bool:
        """Whether the first in the queue were given up: they are there no more."""
        waiting = self._waiting
        if not waiting or not waiting[0].is_over:
            return False
        while waiting and waiting[0].is_over:
            tokens = waiting.popleft().owed_tokens
            self._void -= tokens
            self._served += tokens
        if self._served == self._booked:
            self._delay_s = 0.0  # of nothing that is owed, nothing is waited for
        return True

    def _close_group(self) -> None:
        """Learns from the prompts that were observed together."""
        if self._group_tokens:
            rates, took_s = self.rates, self._group_s
            expected_s = self._shared.expected_s(self._group_starts, self._group_tokens)
            rates.learn(self._group_starts, self._group_tokens, took_s)
            if self._shared.observations > LEARNED_BY:
                self._compare(expected_s, took_s)
        self._forget_group()

    def _compare(self, expected_s: float, took_s: float) -> None:
        """Whether it goes by what the others have learned, of whom so long was expected, or by itself."""
        factor = self._deviation.observe(expected_s, took_s)
        if factor is None:
            if self.rates is not self._shared and self._deviation.is_alike:
                self.rates = self._shared
        elif self.rates is self._shared:
            self.rates = self._shared.fork(factor)

    def _forget_group(self) -> None:
        self._group_tokens = self._group_starts = 0
        self._group_s = 0.0

    def _set_clock(self) -> None:
        token_s = self._token_s() if self.decoding else self.rates.token_s
        owed_tokens = self._booked - self._served - self._void
        done_at = self._since + self._delay_s + owed_tokens * token_s
        if self._others_s:
            done_at = max(done_at, self._read_at) + self._others_s
        self.busy_until = done_at
        room = self.room
        if room.total_tokens and room.is_tight(owed_tokens):
            self.is_simple_until = -math.inf
        elif self._waiting:
            self.is_simple_until = self._head_due(token_s)
        else:
            self.is_simple_until = math.inf

    def _head_due(self, token_s: float) -> float:
        """When the first token of the first in its queue is expected; infinite if nothing is to be seen."""
        if not self._waiting:
            return math.inf
        tokens = self._waiting[0].position - self._served
        return self._since + self._delay_s + tokens * token_s + self._others_s
