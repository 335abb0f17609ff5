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

An engine may have another order: the shortest first, or by priority. It shows that by first tokens that come
well after those of later requests. From then on, each takes only its own prompt out of the queue.

Of an answer in one piece only the end is seen. Where the engine's page counts first tokens, the next reading
says when it had its own. Otherwise that came as much earlier as its other tokens took, at the pace of the
engine's streams, or that it reports. What a reading counts as waiting bounds the queue.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headgate.fleet.counted import CountedPrompts, Lesson
from headgate.fleet.deviation import LEARNED_BY, Deviation
from headgate.fleet.kv_room import KvRoom
from headgate.fleet.order import ServingOrder
from headgate.fleet.prediction import Prediction
from headgate.fleet.rates import Rates
from headgate.fleet.unseen import UnseenPrompts

if TYPE_CHECKING:
    from headgate.fleet.booked_prompt import BookedPrompt
    from headgate.fleet.reading import EngineReading

STEP_TOKENS = 2048
"""Prompts share steps until they have so many tokens together, and longer ones take several: what engines
have for a budget, if nothing else is said. Up to there, prompts are observed together, as their first tokens
come at once."""
USUAL_PROMPT_TOKENS = 1000.0
"""What a request of another gateway is taken for, until requests of ours have shown what is usual."""
USUAL_SHARE = 1 / 32
PACE_ERROR = 0.25
"""How far the time that an answer in one piece was decoded may be off, as a share of it."""


class Estimator:
    """The clock of one endpoint. Told of bookings, first tokens and ends; each costs the same at any load."""

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
        self._is_guess = False
        """Whether it was idle at `_since` by its clock alone, while answers in one piece were to come."""
        self._seen = (0, -math.inf)
        """A position, and when it was seen to be served."""
        self._waiting: deque[BookedPrompt] = deque()
        self._group_tokens = 0
        self._group_starts = 0.0
        self._group_s = 0.0
        self._group_error_s = 0.0
        """How far that may be off since it was last idle, where first tokens were not seen."""
        self._group_squares = 0.0
        """Of the same before that."""
        self._order = ServingOrder()
        self._overtaken: dict[BookedPrompt, None] = {}
        """Streams that were taken for served as later ones were, and have no first token yet."""
        self._unseen = UnseenPrompts()
        self._counted = CountedPrompts()
        self._streamed_at = -math.inf
        """When a stream last had its first token: an engine counts those, too."""
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
            # The rate may be another by now than the clock was set with.
            queue_s = max(self.busy_until - head_due, 0.0) + now - head_due
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

    def booked(self, booking: BookedPrompt, now: float) -> None:
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
            self._is_guess = len(self._unseen) > 0
            if not self._counted.is_good(now):
                self._begin_group()
        tokens += 1  # the first of the answer
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
        """The first token of a streamed request is here. Where prompts are served in their order, all before
        it is served, and nothing after it; otherwise it is."""
        self._streamed_at = now
        if booking.is_settled:
            self._overtaken.pop(booking, None)
            self._order.saw(now - booking.overtaken_at)
            self._decodes(1, now)
            if not self._order.is_kept and self._overtaken:
                self._owe_overtaken()
            return
        if self._order.is_kept:
            if self._order.overtaken:
                self._order.saw(0.0)
            self._served_until(booking, now)
        else:
            self._served_alone(booking, now)
        self._decodes(1, now)
        self._set_clock()

    def _served_until(self, booking: BookedPrompt, now: float) -> None:
        """It is prefilled, and all that was booked before it."""
        waiting = self._waiting
        tokens, adapters = booking.position - self._served, 0
        if tokens <= 0:  # what was before it was passed already, while it had an order of its own
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
        self._take_up(now)

    def _owe_overtaken(self) -> None:
        """It has an order of its own: what was taken for served as something later was is still owed."""
        at = self._served = self._served - sum(booking.owed_tokens for booking in self._overtaken)
        for booking in self._overtaken:
            at += booking.owed_tokens
            booking.position, booking.is_settled = at, False
        self._waiting.extendleft(reversed(self._overtaken))
        self._overtaken.clear()
        self._set_clock()

    def _served_alone(self, booking: BookedPrompt, now: float) -> None:
        """It is prefilled, and others that were booked before it may not be."""
        head = self._waiting[0]
        if head is booking:
            self._order.saw(now - booking.overtaken_at)
        elif head.overtaken_at == math.inf:
            head.overtaken_at = now
        tokens = booking.uncached_tokens + 1 if booking.loads_adapter else booking.owed_tokens
        others_s = now - self._since - self._delay_s - tokens * self.rates.token_s
        self._is_blurred = self._is_blurred or len(self._unseen) > 0
        self._observe(tokens, int(booking.loads_adapter), now)
        booking.is_settled = True
        self._void += booking.owed_tokens
        if len(self._unseen):
            self._pass_unseen(int(others_s / self._token_s()))
        self._take_up(now)

    def _pass_unseen(self, tokens: int) -> None:
        """So many tokens of prompts were prefilled beside those that were seen to be, wherever they stood in
        the queue: no more than are owed besides the streams that wait for their first tokens."""
        unseen = self._booked - self._served - self._void - self._awaited_tokens()
        self._served += min(max(tokens, 0), max(unseen, 0))

    def _awaited_tokens(self) -> int:
        """Of the streams whose first tokens are to come."""
        return sum(booking.owed_tokens for booking in self._waiting if not booking.is_settled)

    def _take_up(self, now: float) -> None:
        """The next prompt is taken up."""
        self._since, self._delay_s = now, 0.0
        self._seen, self._is_guess = (self._served, now), False
        if self._group_tokens >= STEP_TOKENS and self._is_sure():
            self._close_group()
        self._pass_settled()

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

    def ended(self, booking: BookedPrompt, now: float, answer_tokens: int | None = None) -> None:
        """A request is over. What it held in the cache is free, if it had its first token; if it streams and
        had none, its prompt is owed no more. With the last that is there, nothing is owed: of a prompt whose
        answer does not stream, however long it is, the end says that. `answer_tokens`: of an answer that was
        served to its end; None if that is not known."""
        if not booking.is_streamed and self._unseen.remove(booking):
            self._counted.ended(booking, now, is_served=answer_tokens is not None)
            self._came_whole(booking, answer_tokens, now)
        if booking.is_prefilled:
            self.room.give_back(booking.uncached_tokens + 1, now)
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

    def _came_whole(self, booking: BookedPrompt, answer_tokens: int | None, now: float) -> None:
        """An answer in one piece is here, or failed. Its first token came before the others, which took their
        pace."""
        if not self._order.is_kept:
            owed = self._unseen.owed_tokens + self._awaited_tokens()
            self._served = max(self._served, self._booked - self._void - owed)
            return
        waiting = self._waiting
        if answer_tokens is None or (booking.position <= self._served and not self._is_guess):
            return
        if waiting and waiting[0].position < booking.position:
            return  # a stream before it says for itself when it is served
        steps = max(answer_tokens - 1, 0)
        step_s = self._unseen.step_s(booking, steps, self.rates, now)
        if steps and not step_s:
            return
        error_s = PACE_ERROR * steps * step_s
        first_at = max(now - steps * step_s, booking.at)
        tokens = booking.position - self._served
        if self._counted.is_good(now):  # the next look says more
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
        self._take_up(first_at)
        self._set_clock()

    def _longest_work(self, booking: BookedPrompt, first_at: float) -> tuple[int, float]:
        """It was not idle when its clock said so, but still had this prompt: how many tokens it did in which
        time, at least. That is this one since it came, or all since the last that was seen to be served."""
        position, seen_at = self._seen
        tokens, took_s = booking.owed_tokens, first_at - booking.at
        if (first_at - seen_at) * tokens < took_s * (booking.position - position):
            return booking.position - position, first_at - seen_at
        return tokens, took_s

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
        self._unseen.read(reading)
        if reading is None:
            self.room.unknown()
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
            self.room.unknown()
        else:
            self.room.read(reading.blocks * reading.block_tokens, reading.kv_usage)
        self._set_clock()

    def _count(self, reading: EngineReading, own_requests: int) -> None:
        """The engine has counted first tokens: those of the next prompts, if it has no others."""
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
        self._take_up(lesson.last_at)
        coming = counted.next
        if coming is None:
            self._served, self._void = self._booked, 0
        elif coming.at > lesson.last_at:
            self._since, self._delay_s = coming.at, self.rates.delay_s

    def _learn_counted(self, served: Sequence[BookedPrompt], lesson: Lesson) -> None:
        """How long they took is observed, as far as nothing but prefill did."""
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
        """So many wait, all of them ours: sets the clock to what the engine can have to prefill."""
        least, most = self._unseen.bounds(waiting, at, is_ordered=self._order.is_kept)
        if self._waiting:  # streams tell more than that
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
        self._take_up(at)

    def _pass_settled(self) -> bool:
        """Whether the first in the queue were given up or are prefilled: they are there no more."""
        waiting = self._waiting
        if not waiting or not waiting[0].is_settled:
            return False
        while waiting and waiting[0].is_settled:
            tokens = waiting.popleft().owed_tokens
            self._void -= tokens
            self._served += tokens
        if self._served == self._booked:
            self._delay_s = 0.0  # of nothing that is owed, nothing is waited for
        return True

    def _begin_group(self) -> None:
        """It was idle, and begins a prompt: what was seen until now is complete, if it is sure enough."""
        if self._group_tokens and not self._is_sure():
            self._group_squares += self._group_error_s**2
            self._group_error_s = 0.0
        else:
            self._close_group()
        self._group_starts += 1

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

    def _is_sure(self) -> bool:
        """Whether what was observed is more than what may be wrong about it."""
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
        last = self._waiting[0].position if self._order.is_kept else self._booked - self._void
        tokens = last - self._served
        return self._since + self._delay_s + tokens * token_s + self._others_s
