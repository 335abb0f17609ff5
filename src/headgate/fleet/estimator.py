"""Predicts how long a request waits for its first token on an endpoint, in seconds.

    first token = queue + prefill + beside + adapter               (a Prediction has the terms)
    prefill     = uncached tokens * seconds per token + delay
    beside      = sequences that decode * what each adds to a step * steps that the prompt takes
    adapter     = the time to load it, where it is not loaded

If another endpoint prefills, the decoding endpoint has the handover of the KV cache instead of the prefill.

The queue is the work booked before the request and not seen served, at the learned rate, less the time since
the endpoint started on it. A plain sum of open prompts would overstate it, because the endpoint is already
working on the first. Each first token corrects the clock: engines serve prompts in the order of arrival, so
everything booked before it is served and everything booked after it is not.

Some engines use another order: shortest first, or by priority. Their first tokens come well after those of
later requests. Once that shows, each first token removes only its own prompt from the queue.

Of an unstreamed response only the end is visible. If the engine's page counts first tokens, the next reading
gives the time of its first token. Otherwise that time is estimated by the pace of the engine's streams, or by
the pace that it reports. The waiting requests in a reading bound the queue.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headgate.fleet.counted import CountedPrompts, Lesson
from headgate.fleet.deviation import LEARNED_BY, Deviation
from headgate.fleet.kv_capacity import KvCapacity
from headgate.fleet.order import ServingOrder
from headgate.fleet.prediction import Prediction
from headgate.fleet.rates import Rates
from headgate.fleet.unseen import UnseenPrompts

if TYPE_CHECKING:
    from headgate.fleet.booked_prompt import BookedPrompt
    from headgate.fleet.reading import EngineReading

STEP_TOKENS: Final = 2048
"""Prompts share steps up to this many tokens in total, and longer ones take several: the default token budget
of engines. Up to that size, prompts are observed together, because their first tokens come at once."""
USUAL_PROMPT_TOKENS: Final = 1000.0
"""Assumed size of a request from another gateway until our own requests show a mean."""
USUAL_SHARE: Final = 1 / 32
PACE_ERROR: Final = 0.25
"""Relative error of the time that an unstreamed response is assumed to have decoded."""


class Estimator:
    """The clock of one endpoint, updated on bookings, first tokens and ends. Each update takes constant
    time."""

    __slots__ = (
        "_booked",
        "_booked_at",
        "_counted",
        "_decoding_at",
        "_decoding_s",
        "_delay_s",
        "_deviation",
        "_group_error_s",
        "_group_s",
        "_group_squares",
        "_group_starts",
        "_group_tokens",
        "_is_blurred",
        "_is_guess",
        "_order",
        "_others_s",
        "_overtaken",
        "_prefilled_s",
        "_prompt_tokens",
        "_read_at",
        "_seen",
        "_served",
        "_shared",
        "_since",
        "_streamed_at",
        "_unseen",
        "_void",
        "_waiting",
        "busy_until",
        "decoding",
        "is_simple_until",
        "kv",
        "pause_s",
        "rates",
    )

    def __init__(self) -> None:
        self.rates = Rates()
        """Shared with the pool until the endpoint proves faster or slower than the others."""
        self.busy_until = -math.inf
        """When all booked work will be prefilled, while the head of the queue is not overdue."""
        self.is_simple_until = math.inf
        """Until then `busy_until` alone gives the queue. Later, or if the cache is nearly full, call
        `queue_s`. One comparison is enough for the pick."""
        self.kv = KvCapacity()
        self.pause_s = math.inf
        """Seconds between the last two requests sent to it."""
        self.decoding = 0
        """Requests past their prefill. Unstreamed requests all count, because their prefill is not
        visible."""
        self._decoding_s = 0.0
        self._prefilled_s = 0.0
        self._decoding_at = 0.0
        self._booked_at = -math.inf
        self._others_s = 0.0
        """Seconds of the queue that the last reading attributes to other gateways."""
        self._read_at = -math.inf
        self._prompt_tokens = USUAL_PROMPT_TOKENS
        self._shared = self.rates
        self._deviation = Deviation()
        # Positions are in tokens booked since the beginning. The endpoint owes what lies between `_served`
        # and `_booked`, less `_void`, which was given up. It started on it at `_since`, with a delay if it
        # was idle before.
        self._booked = 0
        self._served = 0
        self._void = 0
        self._since = -math.inf
        self._delay_s = 0.0
        self._is_guess = False
        """Whether only its clock says that it was idle at `_since`, while unstreamed responses were
        outstanding."""
        self._seen = (0, -math.inf)
        """A position, and when it was seen served."""
        self._waiting: deque[BookedPrompt] = deque()
        self._group_tokens = 0
        self._group_starts = 0.0
        self._group_s = 0.0
        self._group_error_s = 0.0
        """Uncertainty of the group since the endpoint was last idle, where first tokens were not seen."""
        self._group_squares = 0.0
        """Sum of squared uncertainties before that."""
        self._order = ServingOrder()
        self._overtaken: dict[BookedPrompt, None] = {}
        """Streams assumed served because later ones were, that have no first token yet."""
        self._unseen = UnseenPrompts()
        self._counted = CountedPrompts()
        self._streamed_at = -math.inf
        """When a stream last got its first token: the engine counts those too."""
        self._is_blurred = False
        """Whether the duration of the queue's head is unknown, so that nothing is learned from it."""

    def join(self, shared: Rates) -> None:
        """Share rates with the pool, as long as this endpoint is not known to differ."""
        if self.rates is self._shared:
            self.rates = shared
        self._shared = shared

    # -- predictions

    @property
    def is_told(self) -> bool:
        """Whether predictions include the engine's own figures; otherwise they come from the ledger alone."""
        return self._read_at > -math.inf

    @property
    def awaits_first_token(self) -> bool:
        """Whether a stream is queued whose first token will reveal the length of the queue."""
        return bool(self._waiting)

    def queue_s(self, now: float, uncached_tokens: float = 0.0) -> float:
        """Seconds until the endpoint would start on a request that arrives now and needs `uncached_tokens` of
        cache.

        If the head of the queue is overdue, it is expected to take as long again as it is late: an endpoint
        that has stopped looks worse the longer it is silent.
        """
        queue_s = self.busy_until - now
        if queue_s < 0.0:
            queue_s = 0.0
        if now <= self.is_simple_until:
            return queue_s
        token_s = self._token_s()
        if now > (head_due := self._head_due(token_s)):
            # The rate may have changed since the clock was set.
            queue_s = max(self.busy_until - head_due, 0.0) + now - head_due
        if self.kv.total_tokens:
            waiting_tokens = queue_s / token_s
            queue_s = max(queue_s, self.kv.wait_s(waiting_tokens + uncached_tokens, now))
        return queue_s

    def first_token_s(self, uncached_tokens: float, now: float, *, loads_adapter: bool = False) -> float:
        """Seconds until the first token of a request with `uncached_tokens` to prefill here, and perhaps an
        adapter to load: the sum of the terms of `predicted`."""
        rates = self.rates
        seconds = self.queue_s(now, uncached_tokens) + uncached_tokens * rates.token_s + rates.delay_s
        if self.decoding:
            seconds += self.decoding * rates.beside_s * (1.0 + uncached_tokens / STEP_TOKENS)
        return seconds + rates.pool.adapter_s if loads_adapter else seconds

    def predicted(self, uncached_tokens: float, now: float, *, loads_adapter: bool = False) -> Prediction:
        """The terms of `first_token_s`."""
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
        """Terms of the time from the end of a prefill elsewhere to the first token here, with
        `fetched_tokens` of KV cache to fetch."""
        pool = self.rates.pool
        return Prediction(
            queue_s=self.queue_s(now, fetched_tokens),
            adapter_s=pool.adapter_s if loads_adapter else 0.0,
            handover_s=pool.handover_s(fetched_tokens),
        )

    def _token_s(self) -> float:
        """Seconds per queued token, with the sequences that decode now."""
        rates = self.rates
        return rates.token_s * (1.0 + self.decoding * rates.pool.beside_tokens / STEP_TOKENS)

    # -- events

    def booked(self, booking: BookedPrompt, now: float) -> None:
        """Record a request that is on its way to the endpoint."""
        tokens = booking.uncached_tokens
        if not tokens and not booking.is_streamed and not booking.loads_adapter:
            booking.position = self._booked  # prefilled elsewhere
            self._decodes(1, now)
            return
        self._prompt_tokens += (tokens - self._prompt_tokens) * USUAL_SHARE
        self.pause_s = now - self._booked_at
        self._booked_at = now
        if self._served == self._booked or (not self._waiting and self.busy_until <= now):
            self._served, self._void, self._since = self._booked, 0, now
            self._delay_s = self.rates.delay_s
            self._is_blurred = self._others_s > 0.0
            self._is_guess = len(self._unseen) > 0
            if not self._counted.is_good(now):
                self._begin_group()
        tokens += 1  # the first token of the response
        if booking.loads_adapter:
            tokens += int(self.rates.pool.adapter_s / self._token_s())
        booking.owed_tokens = tokens
        self._booked += tokens
        booking.position = self._booked
        if booking.is_streamed:
            self._waiting.append(booking)
        else:
            self._unseen.add(booking)
            self._counted.add(booking)
            self._decodes(1, now)
        self._set_clock()

    def first_token(self, booking: BookedPrompt, now: float) -> None:
        """Record that a streamed request got its first token. If prompts are served in order, everything
        before it is served too, and nothing after it; otherwise only this prompt is."""
        self._streamed_at = now
        if booking.is_settled:
            self._overtaken.pop(booking, None)
            self._order.record(now - booking.overtaken_at)
            self._decodes(1, now)
            if not self._order.is_kept and self._overtaken:
                self._requeue_overtaken()
            return
        if self._order.is_kept:
            if self._order.overtaken:
                self._order.record(0.0)
            self._served_until(booking, now)
        else:
            self._served_alone(booking, now)
        self._decodes(1, now)
        self._set_clock()

    def _served_until(self, booking: BookedPrompt, now: float) -> None:
        """Record that this prompt and all booked before it are prefilled."""
        waiting = self._waiting
        tokens, adapters = booking.position - self._served, 0
        if tokens <= 0:  # prompts before it were skipped while the engine served out of order
            tokens, self._is_blurred = booking.owed_tokens, True
        while waiting and waiting[0].position <= booking.position:
            passed = waiting.popleft()
            if passed.is_settled:
                self._void -= passed.owed_tokens
                tokens -= passed.owed_tokens
                continue
            passed.is_settled, passed.overtaken_at = True, now
            if passed is not booking:
                self._overtaken[passed] = None
            if passed.loads_adapter:
                adapters += 1
                tokens -= passed.owed_tokens - passed.uncached_tokens - 1
        self._observe(tokens, adapters, now)
        self._served = booking.position
        self._start_next(now)

    def _requeue_overtaken(self) -> None:
        """Queue prompts again that were assumed served because a later one was: the engine serves out of
        order."""
        at = self._served = self._served - sum(booking.owed_tokens for booking in self._overtaken)
        for booking in self._overtaken:
            at += booking.owed_tokens
            booking.position, booking.is_settled = at, False
        self._waiting.extendleft(reversed(self._overtaken))
        self._overtaken.clear()
        self._set_clock()

    def _served_alone(self, booking: BookedPrompt, now: float) -> None:
        """Record that this prompt is prefilled, whether or not earlier ones are."""
        head = self._waiting[0]
        if head is booking:
            self._order.record(now - booking.overtaken_at)
        elif head.overtaken_at == math.inf:
            head.overtaken_at = now
        tokens = booking.uncached_tokens + 1 if booking.loads_adapter else booking.owed_tokens
        others_s = now - self._since - self._delay_s - tokens * self.rates.token_s
        self._is_blurred = self._is_blurred or len(self._unseen) > 0
        self._observe(tokens, int(booking.loads_adapter), now)
        booking.is_settled = True
        self._void += booking.owed_tokens
        if len(self._unseen):
            self._skip_unseen(int(others_s / self._token_s()))
        self._start_next(now)

    def _skip_unseen(self, tokens: int) -> None:
        """Remove `tokens` of prompts whose prefill is not visible from the queue, wherever they stood in it:
        at most what is owed besides the streams that wait for their first tokens."""
        unseen = self._booked - self._served - self._void - self._awaited_tokens()
        self._served += min(max(tokens, 0), max(unseen, 0))

    def _awaited_tokens(self) -> int:
        """Tokens of the streams whose first tokens are outstanding."""
        return sum(booking.owed_tokens for booking in self._waiting if not booking.is_settled)

    def _start_next(self, now: float) -> None:
        """Record that the endpoint starts on the next prompt."""
        self._since, self._delay_s = now, 0.0
        self._seen, self._is_guess = (self._served, now), False
        if self._group_tokens >= STEP_TOKENS and self._is_sure():
            self._close_group()
        self._pass_settled()

    def _observe(self, tokens: int, adapters: int, now: float) -> None:
        """Observe that `tokens` were prefilled, and adapters loaded, since the last first token. Only the
        cost of prefill itself is learned: the share of sequences that decode beside it is subtracted."""
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

    def ended(self, booking: BookedPrompt, now: float, response_tokens: int | None = None) -> None:
        """Record that a request has ended. Its cache is free if it had its first token. The prompt of a
        stream without one is owed no more. When the last request ends, nothing is owed: the end of an
        unstreamed response proves its prefill. `response_tokens`: tokens of a complete response; None if
        unknown."""
        if not booking.is_streamed and self._unseen.remove(booking):
            self._counted.ended(booking, now, is_served=response_tokens is not None)
            self._unstreamed_ended(booking, response_tokens, now)
        if booking.is_prefilled:
            self.kv.give_back(booking.uncached_tokens + 1, now)
        if booking.is_prefilled or not booking.is_streamed:
            self._decodes(-1, now)
            if not self.decoding and not self._waiting:
                self._served, self._void, self._delay_s = self._booked, 0, 0.0
            if self._waiting or self.busy_until > now:
                self._set_clock()
        elif booking.is_settled:
            self._overtaken.pop(booking, None)
        else:
            booking.is_settled = True
            self._void += booking.owed_tokens
            if self._pass_settled():
                self._is_blurred = True
            self._set_clock()

    def _unstreamed_ended(self, booking: BookedPrompt, response_tokens: int | None, now: float) -> None:
        """Record that an unstreamed response is complete, or has failed. Its first token preceded the others
        by their decode time."""
        if not self._order.is_kept:
            owed = self._unseen.owed_tokens + self._awaited_tokens()
            self._served = max(self._served, self._booked - self._void - owed)
            return
        waiting = self._waiting
        if response_tokens is None or (booking.position <= self._served and not self._is_guess):
            return
        if waiting and waiting[0].position < booking.position:
            return  # a stream before it reports its own first token
        steps = max(response_tokens - 1, 0)
        step_s = self._unseen.step_s(booking, steps, self.rates, now)
        if steps and not step_s:
            return
        error_s = PACE_ERROR * steps * step_s
        first_at = max(now - steps * step_s, booking.at)
        tokens = booking.position - self._served
        if self._counted.is_good(now):  # the next reading is better evidence
            if tokens > 0:
                self._served, self._since, self._delay_s = booking.position, max(first_at, self._since), 0.0
                self._set_clock()
            return
        if tokens <= 0:
            if first_at - error_s <= self._since:
                return
            tokens, took_s = self._longest_work(booking, first_at)
            self._since, self._delay_s = first_at - took_s, 0.0
        self._group_error_s = max(self._group_error_s, error_s)
        self._observe(tokens, 0, first_at)
        self._served = booking.position
        self._start_next(first_at)
        self._set_clock()

    def _longest_work(self, booking: BookedPrompt, first_at: float) -> tuple[int, float]:
        """The work of an endpoint that the clock assumed idle although it still had this prompt. Returns the
        tokens prefilled and the least time that they took: of this prompt since it was booked, or of
        everything since the last position seen served."""
        position, seen_at = self._seen
        tokens, took_s = booking.owed_tokens, first_at - booking.at
        if (first_at - seen_at) * tokens < took_s * (booking.position - position):
            return booking.position - position, first_at - seen_at
        return tokens, took_s

    def _decodes(self, more: int, now: float) -> None:
        """Change the number of decoding sequences by `more`."""
        self._decoding_s += self.decoding * (now - self._decoding_at)
        self._decoding_at = now
        self.decoding += more

    def so_far(self, now: float) -> tuple[float, float]:
        """Two running sums whose differences describe an interval: decoding sequences times seconds, and
        seconds of prefill done so far."""
        prefilled_s = self._prefilled_s
        if self._waiting:
            head_tokens = self._waiting[0].position - self._served
            prefilled_s += min(now - self._since, self._delay_s + head_tokens * self.rates.token_s)
        return self._decoding_s + self.decoding * (now - self._decoding_at), prefilled_s

    def read(self, reading: EngineReading | None, own_requests: int) -> None:
        """Apply a reading, taken while the engine had `own_requests` of ours; None clears it.

        Waiting requests of other gateways are assumed to be as long as ours usually are.
        """
        self._others_s, self._read_at = 0.0, -math.inf
        self._unseen.read(reading)
        if reading is None:
            self.kv.unknown()
            self._set_clock()
            return
        self._read_at = reading.at
        others = 0
        if reading.waiting and reading.running is not None:
            others = min(reading.waiting, max(0, reading.waiting + reading.running - own_requests))
            self._others_s = others * self._prompt_tokens * self._token_s()
            self._is_blurred = self._is_blurred or others > 0
        if self._unseen or self._counted.is_good(reading.at):
            self._count(reading, own_requests)
        if reading.waiting is not None and self._unseen and not others:
            self._bound(reading.waiting, reading.at)
        if reading.kv_usage is None or not reading.blocks or not reading.block_tokens:
            self.kv.unknown()
        else:
            self.kv.read(reading.blocks * reading.block_tokens, reading.kv_usage)
        self._set_clock()

    def _count(self, reading: EngineReading, own_requests: int) -> None:
        """Apply the engine's count of first tokens: they belong to the next prompts, if it has no other
        requests."""
        counted, rates = self._counted, self.rates
        is_alone = (reading.waiting or 0) + (reading.running or 0) <= own_requests
        if not is_alone or self._waiting or self._streamed_at > (reading.ttft_since or -math.inf):
            counted.distrust()
            return
        if not (served := counted.count(reading)):
            return
        assert reading.ttft_s is not None
        lesson = counted.lesson(served, reading.ttft_s, counted.seen_at, rates.delay_s, rates.token_s)
        self._learn_counted(served, lesson)
        counted.seen_at = lesson.last_at
        self._served = served[-1].position
        self._start_next(lesson.last_at)
        coming = counted.next
        if coming is None:
            self._served, self._void = self._booked, 0
        elif coming.at > lesson.last_at:
            self._since, self._delay_s = coming.at, self.rates.delay_s

    def _learn_counted(self, served: Sequence[BookedPrompt], lesson: Lesson) -> None:
        """Observe the duration of counted prompts, as far as only prefill took it."""
        rates = self.rates
        took_s = lesson.took_s
        took_s -= (lesson.tokens / STEP_TOKENS + lesson.starts) * self.decoding * rates.beside_s
        self._prefilled_s += sum(booking.owed_tokens for booking in served) * rates.token_s
        if lesson.starts:
            self._close_group()
        if self._counted.is_sure and took_s > 0.0 and not any(booking.loads_adapter for booking in served):
            self._group_starts += lesson.starts
            self._group_tokens += round(lesson.tokens)
            self._group_s += took_s

    def _bound(self, waiting: int, at: float) -> None:
        """Set the clock to the range of work that `waiting` requests, all of them ours, can have left."""
        least, most = self._unseen.bounds(waiting, at, is_ordered=self._order.is_kept)
        if self._waiting:  # streams are better evidence
            least, most = 0, most + self._awaited_tokens()
        owed = self._booked - self._served - self._void
        left = min(max(self.busy_until - at, 0.0) / self._token_s(), owed)
        if least <= left <= most + STEP_TOKENS:
            return
        served = self._booked - self._void - (least if left < least else most)
        if self._waiting:
            head = self._waiting[0]
            served = max(self._served, min(served, head.position - head.owed_tokens))
        if self._counted.is_good(at):
            pass
        elif served > self._served:
            self._group_error_s = max(self._group_error_s, (most - least) * self.rates.token_s)
            self._observe(served - self._served, 0, at)
        else:
            self._is_blurred = True
            self._forget_group()
        self._served = served
        self._start_next(at)

    def _pass_settled(self) -> bool:
        """Remove settled prompts from the head of the queue. Returns whether there were any."""
        waiting = self._waiting
        if not waiting or not waiting[0].is_settled:
            return False
        while waiting and waiting[0].is_settled:
            tokens = waiting.popleft().owed_tokens
            self._void -= tokens
            self._served += tokens
        if self._served == self._booked:
            self._delay_s = 0.0  # nothing is owed, so nothing is delayed
        return True

    def _begin_group(self) -> None:
        """Record that the idle endpoint starts on a prompt: the group so far is complete, if it is certain
        enough."""
        if self._group_tokens and not self._is_sure():
            self._group_squares += self._group_error_s**2
            self._group_error_s = 0.0
        else:
            self._close_group()
        self._group_starts += 1

    def _close_group(self) -> None:
        """Learn from the prompts that were observed together."""
        if self._group_tokens:
            rates, took_s = self.rates, self._group_s
            expected_s = self._shared.expected_s(self._group_starts, self._group_tokens)
            rates.learn(self._group_starts, self._group_tokens, took_s)
            if self._shared.observations > LEARNED_BY:
                self._compare(expected_s, took_s)
        self._forget_group()

    def _compare(self, expected_s: float, took_s: float) -> None:
        """Decide between the pool's rates, which expected `expected_s`, and rates of its own."""
        factor = self._deviation.observe(expected_s, took_s)
        if factor is None:
            if self.rates is not self._shared and self._deviation.is_alike:
                self.rates = self._shared
        elif self.rates is self._shared:
            self.rates = self._shared.fork(factor)

    def _is_sure(self) -> bool:
        """Whether the observed time clearly exceeds its uncertainty."""
        observed_s = max(self._group_s, self._group_tokens * self.rates.token_s)
        return observed_s**2 >= 4.0 * (self._group_squares + self._group_error_s**2)

    def _forget_group(self) -> None:
        self._group_tokens = 0
        self._group_starts = 0.0
        self._group_s = self._group_error_s = self._group_squares = 0.0

    def _set_clock(self) -> None:
        token_s = self._token_s() if self.decoding else self.rates.token_s
        owed_tokens = self._booked - self._served - self._void
        done_at = self._since + self._delay_s + owed_tokens * token_s
        if self._others_s:
            done_at = max(done_at, self._read_at) + self._others_s
        self.busy_until = done_at
        kv = self.kv
        if kv.total_tokens and kv.is_tight(owed_tokens):
            self.is_simple_until = -math.inf
        elif self._waiting:
            self.is_simple_until = self._head_due(token_s)
        else:
            self.is_simple_until = math.inf

    def _head_due(self, token_s: float) -> float:
        """When the first token of the queue's head is due; infinite if no stream waits."""
        if not self._waiting:
            return math.inf
        last = self._waiting[0].position if self._order.is_kept else self._booked - self._void
        tokens = last - self._served
        return self._since + self._delay_s + tokens * token_s + self._others_s
