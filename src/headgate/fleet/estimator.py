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
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headgate.fleet.arrivals import Arrivals
from headgate.fleet.counted import CountedPrompts, Lesson
from headgate.fleet.decoding import DecodingSequences
from headgate.fleet.deviation import Deviation
from headgate.fleet.kv_capacity import KvCapacity
from headgate.fleet.order import ServingOrder
from headgate.fleet.others import OthersQueue
from headgate.fleet.prediction import Prediction
from headgate.fleet.prefill_group import PrefillGroup
from headgate.fleet.prefill_queue import PrefillQueue
from headgate.fleet.rates import Rates
from headgate.fleet.shared_prefill import SharedPrefill
from headgate.fleet.unseen import UnseenPrompts

if TYPE_CHECKING:
    from headgate.fleet.booked_prompt import BookedPrompt
    from headgate.fleet.elsewhere import Elsewhere
    from headgate.fleet.reading import EngineReading

STEP_TOKENS: Final = 2048
"""Prompts share steps up to this many tokens in total, and longer ones take several: the default token budget
of engines. Up to that size, prompts are observed together, because their first tokens come at once."""
REPORTED_S: Final = 0.03
"""How old reports of other gateways may be."""
PACE_ERROR: Final = 0.25
"""Relative error of the time that an unstreamed response is assumed to have decoded."""


class Estimator:
    """Predicts the first tokens of one endpoint from bookings, first tokens, ends and readings. Each update
    takes constant time."""

    __slots__ = (
        "_counted",
        "_deviation",
        "_group",
        "_order",
        "_others",
        "_queue",
        "_shared",
        "_unseen",
        "arrivals",
        "busy_until",
        "decoding",
        "is_simple_until",
        "kv",
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
        self.arrivals = Arrivals()
        self.decoding = DecodingSequences()
        self._queue = PrefillQueue()
        self._others = OthersQueue()
        self._shared = SharedPrefill()
        self._group = PrefillGroup()
        self._deviation = Deviation(self.rates)
        self._order = ServingOrder()
        self._unseen = UnseenPrompts()
        self._counted = CountedPrompts()

    def join(self, shared: Rates) -> None:
        """Share rates with the pool, as long as this endpoint is not known to differ."""
        if self.rates is self._deviation.shared:
            self.rates = shared
        self._deviation.shared = shared

    # -- predictions

    @property
    def is_told(self) -> bool:
        """Whether predictions include the engine's own figures; otherwise they come from the ledger alone."""
        return self._others.read_at > -math.inf

    @property
    def awaits_first_token(self) -> bool:
        """Whether a stream is queued whose first token will reveal the length of the queue."""
        return bool(self._queue.waiting)

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

    def unbegun_s(self, now: float) -> float:
        """Seconds of prefill that the endpoint has not begun: all that it was sent, but for the first prompt
        of its queue, or the tokens of one step if these are more."""
        queue = self._queue
        head_tokens = queue.waiting[0].owed_tokens if queue.waiting else 0
        waiting_tokens = queue.owed_tokens - max(head_tokens, STEP_TOKENS)
        if waiting_tokens <= 0:
            return 0.0
        # By the clock, it may have come further than first tokens show.
        return min(waiting_tokens * self.rates.token_s, self.queue_s(now))

    def first_token_s(self, uncached_tokens: float, now: float, *, loads_adapter: bool = False) -> float:
        """Seconds until the first token of a request with `uncached_tokens` to prefill here, and perhaps an
        adapter to load: the sum of the terms of `predicted`."""
        rates = self.rates
        seconds = self.queue_s(now, uncached_tokens) + uncached_tokens * rates.token_s + rates.delay_s
        if count := self.decoding.count:
            seconds += count * rates.beside_s * (1.0 + uncached_tokens / STEP_TOKENS)
        return seconds + rates.pool.adapter_s if loads_adapter else seconds

    def predicted(self, uncached_tokens: float, now: float, *, loads_adapter: bool = False) -> Prediction:
        """The terms of `first_token_s`."""
        rates = self.rates
        return Prediction(
            queue_s=self.queue_s(now, uncached_tokens),
            prefill_s=uncached_tokens * rates.token_s + rates.delay_s,
            beside_s=self.decoding.count * rates.beside_s * (1.0 + uncached_tokens / STEP_TOKENS),
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
        return rates.token_s * (1.0 + self.decoding.count * rates.pool.beside_tokens / STEP_TOKENS)

    # -- events

    def booked(self, booking: BookedPrompt, now: float) -> None:
        """Record a request that is on its way to the endpoint."""
        tokens, queue = booking.uncached_tokens, self._queue
        if not tokens and not booking.is_streamed and not booking.loads_adapter:
            booking.position = queue.booked  # prefilled elsewhere
            self.decoding.change(1, now)
            return
        self.arrivals.add(tokens, now)
        if queue.served == queue.booked or (not queue.waiting and self.busy_until <= now):
            self._group.is_blurred = self._others.queue_s > 0.0
            self._others.take_prefilled()
            is_guess = len(self._unseen) > 0
            if self._others.is_working and self.busy_until > now:
                queue.begin(self._others.since, 0.0, is_guess=is_guess, is_behind=True)
            else:
                queue.begin(now, self.rates.delay_s, is_guess=is_guess)
                if not self._counted.is_good(now):
                    self._begin_group()
        tokens += 1  # the first token of the response
        if booking.loads_adapter:
            tokens += int(self.rates.pool.adapter_s / self._token_s())
        queue.add(booking, tokens)
        if not booking.is_streamed:
            self._unseen.add(booking)
            self._counted.add(booking)
            self.decoding.change(1, now)
        self._set_clock()

    def first_token(self, booking: BookedPrompt, now: float) -> None:
        """Record that a streamed request got its first token. If prompts are served in order, everything
        before it is served too, and nothing after it; otherwise only this prompt is."""
        order = self._order
        self._counted.streamed_at = now
        if booking.is_settled:
            order.forget(booking)
            order.record(now - booking.overtaken_at)
            self.decoding.change(1, now)
            if not order.is_kept and (overtaken := order.take_back()):
                self._queue.put_back(overtaken)
                self._set_clock()
            return
        if order.is_kept:
            if order.overtaken:
                order.record(0.0)
            self._served_until(booking, now)
        else:
            self._served_alone(booking, now)
        self.decoding.change(1, now)
        self._set_clock()

    def _served_until(self, booking: BookedPrompt, now: float) -> None:
        """Record that this prompt and all booked before it are prefilled."""
        queue = self._queue
        if booking.position <= queue.served:
            self._group.is_blurred = True
        tokens, adapters = queue.pop_until(booking, now, self._order)
        self._observe(tokens, adapters, now)
        self._start_next(booking.position, now)

    def _served_alone(self, booking: BookedPrompt, now: float) -> None:
        """Record that this prompt is prefilled, whether or not earlier ones are."""
        queue, group = self._queue, self._group
        head = queue.waiting[0]
        if head is booking:
            self._order.record(now - booking.overtaken_at)
        elif head.overtaken_at == math.inf:
            head.overtaken_at = now
        tokens = booking.uncached_tokens + 1 if booking.loads_adapter else booking.owed_tokens
        others_s = now - queue.since - queue.delay_s - tokens * self.rates.token_s
        group.is_blurred = group.is_blurred or len(self._unseen) > 0 or self._others.reported > 0
        self._observe(tokens, int(booking.loads_adapter), now)
        queue.settle(booking)
        if len(self._unseen):
            queue.skip_unseen(int(others_s / self._token_s()))
        self._start_next(queue.served, now)

    def _start_next(self, served: int, at: float) -> None:
        """Record that everything up to the position `served` is prefilled, and that the endpoint starts on
        the next prompt."""
        self._queue.start_next(served, at)
        if self._group.tokens >= STEP_TOKENS and self._group.is_sure(self.rates.token_s):
            self._close_group()

    def _observe(self, tokens: int, adapters: int, now: float) -> None:
        """Observe that `tokens` were prefilled, and adapters loaded, since the last first token. Only the
        cost of prefill itself is learned: the share of sequences that decode beside it is subtracted."""
        rates, queue, group, others = self.rates, self._queue, self._group, self._others
        queue.prefilled_tokens += tokens
        if others.reported or others.prefilled_tokens:
            # The engine served theirs in between, and their reports may be late.
            tokens += others.take_prefilled()
            group.note_error(REPORTED_S)
        took_s = now - queue.since
        alone_s = queue.delay_s + tokens * rates.token_s
        steps = tokens / STEP_TOKENS + (1.0 if queue.delay_s else 0.0)
        took_s -= steps * self.decoding.count * rates.beside_s
        queue.prefilled_s += alone_s
        if group.is_blurred:
            group.is_blurred = others.queue_s > 0.0
            group.forget()
        elif adapters:
            rates.pool.learn_adapter((took_s - alone_s) / adapters)
            group.forget()
        else:
            group.add(tokens, took_s)

    def ended(self, booking: BookedPrompt, now: float, response_tokens: int | None = None) -> None:
        """Record that a request has ended. Its cache is free if it had its first token. The prompt of a
        stream without one is owed no more. When the last request ends, nothing is owed: the end of an
        unstreamed response proves its prefill. `response_tokens`: tokens of a complete response; None if
        unknown."""
        queue = self._queue
        if not booking.is_streamed and self._unseen.remove(booking):
            self._counted.ended(booking, now, is_served=response_tokens is not None)
            self._unstreamed_ended(booking, response_tokens, now)
        if booking.is_prefilled:
            self.kv.give_back(booking.uncached_tokens + 1, now)
        if booking.is_prefilled or not booking.is_streamed:
            self.decoding.change(-1, now)
            if not self.decoding.own and not queue.waiting:
                queue.clear()
            if queue.waiting or self.busy_until > now:
                self._set_clock()
        elif booking.is_settled:
            self._order.forget(booking)
        else:
            queue.settle(booking)
            if queue.pass_settled():
                self._group.is_blurred = True
            self._set_clock()

    def _unstreamed_ended(self, booking: BookedPrompt, response_tokens: int | None, now: float) -> None:
        """Record that an unstreamed response is complete, or has failed. Its first token preceded the others
        by their decode time."""
        queue = self._queue
        if not self._order.is_kept:
            queue.owe_at_most(self._unseen.owed_tokens + queue.awaited_tokens())
            return
        if response_tokens is None or (booking.position <= queue.served and not queue.is_guess):
            return
        if queue.waiting and queue.waiting[0].position < booking.position:
            return  # a stream before it reports its own first token
        steps = max(response_tokens - 1, 0)
        step_s = self._unseen.step_s(booking, steps, self.rates, now)
        if steps and not step_s:
            return
        error_s = PACE_ERROR * steps * step_s
        first_at = max(now - steps * step_s, booking.at)
        tokens = booking.position - queue.served
        if self._counted.is_good(now):  # the next reading is better evidence
            if tokens > 0:
                queue.advance(booking, first_at)
                self._set_clock()
            return
        if tokens <= 0:
            if first_at - error_s <= queue.since:
                return
            tokens = queue.rewind(booking, first_at)
        self._group.note_error(error_s)
        self._observe(tokens, 0, first_at)
        self._start_next(booking.position, first_at)
        self._set_clock()

    def so_far(self, now: float) -> tuple[float, float]:
        """Two running sums whose differences describe an interval: decoding sequences times seconds, and
        seconds of prefill done so far."""
        return self.decoding.total_s(now), self._queue.prefilled_so_far(now, self.rates.token_s)

    # -- readings

    def read(self, reading: EngineReading | None, own_requests: int) -> None:
        """Apply a reading, taken while the engine had `own_requests` of ours and of gateways that report
        theirs; None clears it.

        Waiting requests of other gateways are assumed to be as long as ours usually are.
        """
        self._unseen.read(reading)
        if reading is None:
            self._others.clear()
            self._shared.clear()
            self.kv.unknown()
            self._set_clock()
            return
        others = self._others.read(reading, own_requests, self.arrivals.prompt_tokens, self._token_s())
        self._group.is_blurred = self._group.is_blurred or others > 0
        self._learn_shared(reading, others + self._others.owed_tokens)
        if self._unseen or self._counted.is_good(reading.at):
            self._count(reading, own_requests)
        if reading.waiting is not None and self._unseen and not others and not self._others.reported:
            self._bound(reading.waiting, reading.at)
        if reading.kv_usage is None or not reading.blocks or not reading.block_tokens:
            self.kv.unknown()
        else:
            self.kv.read(reading.blocks * reading.block_tokens, reading.kv_usage)
        self._set_clock()

    def report(self, elsewhere: Elsewhere, now: float) -> None:
        """Apply what other gateways report."""
        self._others.report(elsewhere)
        self.decoding.report(elsewhere.decoding, now)
        self._set_clock()

    def report_served(self, prompts: int, prefilled_tokens: int) -> None:
        """Count prompts that other gateways sent since their last report, and tokens that they saw served."""
        self.arrivals.add_elsewhere(prompts)
        if prefilled_tokens > 0:
            self._others.prefilled_tokens += prefilled_tokens

    @property
    def prefilled_tokens(self) -> int:
        """Tokens that this gateway has seen served."""
        return self._queue.prefilled_tokens

    @property
    def progress(self) -> float:
        """Changes with each first token, and with each other event by which the queue is corrected."""
        return self._queue.since + self._queue.void

    def own_queue(self, now: float) -> tuple[int, int, float]:
        """The tokens that the endpoint owes this gateway; those of the first prompt, or 0 if only the clock
        shows its progress; and since when it works on them, which is minus infinity if others are before
        them."""
        queue = self._queue
        owed_tokens = queue.owed_tokens
        if not queue.waiting:
            left_tokens = int(max(self.busy_until - now, 0.0) / self._token_s())
            return min(owed_tokens, left_tokens), 0, now if owed_tokens else queue.since
        head_tokens = queue.head_tokens(is_ordered=self._order.is_kept)
        return owed_tokens, head_tokens, -math.inf if queue.is_behind else queue.since + queue.delay_s

    def _count(self, reading: EngineReading, own_requests: int) -> None:
        """Apply the engine's count of first tokens: they belong to the next prompts, if it has no other
        requests."""
        counted, rates, queue = self._counted, self.rates, self._queue
        is_alone = (reading.waiting or 0) + (reading.running or 0) <= own_requests - self._others.reported
        if not is_alone or queue.waiting or counted.streamed_at > (reading.ttft_since or -math.inf):
            counted.distrust()
            return
        if not (served := counted.count(reading)):
            return
        assert reading.ttft_s is not None
        lesson = counted.lesson(served, reading.ttft_s, counted.seen_at, rates.delay_s, rates.token_s)
        self._learn_counted(served, lesson)
        counted.seen_at = lesson.last_at
        self._start_next(served[-1].position, lesson.last_at)
        coming = counted.next
        if coming is None:
            queue.clear()
        elif coming.at > lesson.last_at:
            queue.idle_until(coming.at, self.rates.delay_s)

    def _learn_counted(self, served: Sequence[BookedPrompt], lesson: Lesson) -> None:
        """Observe the duration of counted prompts, as far as only prefill took it."""
        rates = self.rates
        took_s = lesson.took_s
        took_s -= (lesson.tokens / STEP_TOKENS + lesson.starts) * self.decoding.count * rates.beside_s
        self._queue.prefilled_s += sum(booking.owed_tokens for booking in served) * rates.token_s
        if lesson.starts:
            self._close_group()
        if self._counted.is_sure and took_s > 0.0 and not any(booking.loads_adapter for booking in served):
            self._group.add(round(lesson.tokens), took_s, lesson.starts)

    def _learn_shared(self, reading: EngineReading, others: int) -> None:
        """Learn from the first tokens of all gateways, as far as only prefill took the time. Prompts of
        others are assumed to be as long as ours usually are."""
        if lesson := self._shared.read(reading, others):
            tokens = round(lesson.first_tokens * (self.arrivals.prompt_tokens + 1))
            beside_s = tokens / STEP_TOKENS * (reading.running or 0) * self.rates.beside_s
            if (took_s := lesson.took_s - beside_s) > 0.0:
                self.rates = self._deviation.learn(self.rates, 0.0, tokens, took_s)

    def _bound(self, waiting: int, at: float) -> None:
        """Set the clock to the range of work that `waiting` requests, all of them ours, can have left."""
        queue, group = self._queue, self._group
        least, most = self._unseen.bounds(waiting, at, is_ordered=self._order.is_kept)
        if queue.waiting:  # streams are better evidence
            least, most = 0, most + queue.awaited_tokens()
        left = min(max(self.busy_until - at, 0.0) / self._token_s(), queue.owed_tokens)
        if least <= left <= most + STEP_TOKENS:
            return
        served = queue.served_if_owed(least if left < least else most)
        if self._counted.is_good(at):
            pass
        elif served > queue.served:
            group.note_error((most - least) * self.rates.token_s)
            self._observe(served - queue.served, 0, at)
        else:
            group.is_blurred = True
            group.forget()
        self._start_next(served, at)

    # -- learning

    def _begin_group(self) -> None:
        """Record that the idle endpoint starts on a prompt: the group so far is complete, if it is certain
        enough."""
        group = self._group
        if group.tokens and not group.is_sure(self.rates.token_s):
            group.separate_errors()
        else:
            self._close_group()
        group.starts += 1

    def _close_group(self) -> None:
        """Learn from the prompts that were observed together."""
        group = self._group
        if group.tokens:
            self.rates = self._deviation.learn(self.rates, group.starts, group.tokens, group.took_s)
        group.forget()

    # -- the clock

    def _set_clock(self) -> None:
        """Update the times that follow from the queue, after a change of it or of the rates."""
        queue, others, kv = self._queue, self._others, self.kv
        token_s = self._token_s() if self.decoding.count else self.rates.token_s
        is_alone = others.is_empty and not queue.is_behind
        self.busy_until = queue.done_at(token_s) if is_alone else others.done_at(queue, token_s)
        if kv.total_tokens and kv.is_tight(queue.owed_tokens):
            self.is_simple_until = -math.inf
        elif queue.waiting or others.owed_tokens:
            self.is_simple_until = self._head_due(token_s)
        else:
            self.is_simple_until = math.inf

    def _head_due(self, token_s: float) -> float:
        """When the first token of the queue's head is due; infinite if no stream waits."""
        return self._others.head_due(self._queue, token_s, is_ordered=self._order.is_kept)
