"""The queue of prompts that an endpoint has to prefill, and the clock of its progress.

The queue is the work booked and not seen served. The clock says since when the endpoint works on its head: a
plain sum of open prompts would overstate the queue, because the endpoint has already worked on the first.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.fleet.booked_prompt import BookedPrompt
    from headgate.fleet.order import ServingOrder


class PrefillQueue:
    """The prompts of one endpoint, in the order in which they were booked.

    Positions are in tokens booked since the beginning. The endpoint owes what lies between `served` and
    `booked`, less `void`, which was given up or served out of order. It started on it at `since`."""

    __slots__ = (
        "_seen",
        "booked",
        "delay_s",
        "is_behind",
        "is_guess",
        "prefilled_s",
        "prefilled_tokens",
        "served",
        "since",
        "void",
        "waiting",
    )

    def __init__(self) -> None:
        self.booked = 0
        self.served = 0
        self.void = 0
        self.since = -math.inf
        self.delay_s = 0.0
        """Additional seconds for the head, if the endpoint was idle before it."""
        self.is_guess = False
        """Whether only its clock says that it was idle at `since`, while unstreamed responses were
        outstanding."""
        self.is_behind = False
        """Whether its head waits behind prompts of other gateways, so that `since` shows nothing."""
        self.waiting: deque[BookedPrompt] = deque()
        """Streams without a first token, and given up or served ones between them."""
        self.prefilled_s = 0.0
        """Seconds of prefill done, without that in progress."""
        self.prefilled_tokens = 0
        """Tokens that were seen served since the beginning."""
        self._seen = (0, -math.inf)
        """A position, and when it was seen served."""

    @property
    def owed_tokens(self) -> int:
        """Tokens that the endpoint has yet to prefill."""
        return self.booked - self.served - self.void

    # -- booking

    def begin(self, now: float, delay_s: float, *, is_guess: bool, is_behind: bool = False) -> None:
        """Record that the endpoint is idle before the next prompt, which it starts with a delay, or that it
        has only prompts of other gateways before it."""
        self.served, self.void, self.since = self.booked, 0, now
        self.delay_s, self.is_guess = delay_s, is_guess
        self.is_behind = is_behind

    def add(self, booking: BookedPrompt, tokens: int) -> None:
        """Append a prompt that takes as long as `tokens`."""
        booking.owed_tokens = tokens
        self.booked += tokens
        booking.position = self.booked
        if booking.is_streamed:
            self.waiting.append(booking)

    # -- progress

    def start_next(self, served: int, at: float) -> None:
        """Record that everything up to the position `served` is prefilled, and that the endpoint starts on
        the next prompt."""
        self.served = served
        self.since, self.delay_s = at, 0.0
        self._seen, self.is_guess, self.is_behind = (served, at), False, False
        self.pass_settled()

    def idle_until(self, at: float, delay_s: float) -> None:
        """Correct the clock: the endpoint had nothing to do until `at`, and then starts with a delay."""
        self.since, self.delay_s, self.is_behind = at, delay_s, False

    def pop_until(self, booking: BookedPrompt, now: float, order: ServingOrder) -> tuple[int, int]:
        """Remove this prompt and all before it, which are assumed served too. Returns the tokens prefilled,
        and the number of adapters loaded."""
        waiting = self.waiting
        tokens, adapters = booking.position - self.served, 0
        if tokens <= 0:  # prompts before it were skipped while the engine served out of order
            tokens = booking.owed_tokens
        while waiting and waiting[0].position <= booking.position:
            passed = waiting.popleft()
            if passed.is_settled:
                self.void -= passed.owed_tokens
                tokens -= passed.owed_tokens
                continue
            passed.is_settled, passed.overtaken_at = True, now
            if passed is not booking:
                order.assume_served(passed)
            if passed.loads_adapter:
                adapters += 1
                tokens -= passed.owed_tokens - passed.uncached_tokens - 1
        return tokens, adapters

    def put_back(self, bookings: Sequence[BookedPrompt]) -> None:
        """Queue prompts again that were assumed served, before all others."""
        at = self.served = self.served - sum(booking.owed_tokens for booking in bookings)
        for booking in bookings:
            at += booking.owed_tokens
            booking.position, booking.is_settled = at, False
        self.waiting.extendleft(reversed(bookings))

    def settle(self, booking: BookedPrompt) -> None:
        """Record that no work is owed for a prompt, wherever it is in the queue."""
        booking.is_settled = True
        self.void += booking.owed_tokens

    def pass_settled(self) -> bool:
        """Remove settled prompts from the head of the queue. Returns whether there were any."""
        waiting = self.waiting
        if not waiting or not waiting[0].is_settled:
            return False
        while waiting and waiting[0].is_settled:
            tokens = waiting.popleft().owed_tokens
            self.void -= tokens
            self.served += tokens
        if self.served == self.booked:
            self.delay_s = 0.0  # nothing is owed, so nothing is delayed
        return True

    def clear(self) -> None:
        """Record that nothing is owed."""
        self.served, self.void, self.delay_s, self.is_behind = self.booked, 0, 0.0, False

    # -- prompts whose first tokens are not visible

    def awaited_tokens(self) -> int:
        """Tokens of the streams whose first tokens are outstanding."""
        return sum(booking.owed_tokens for booking in self.waiting if not booking.is_settled)

    def skip_unseen(self, tokens: int) -> None:
        """Remove `tokens` of prompts whose prefill is not visible, wherever they stood in the queue: at most
        what is owed besides the streams that wait for their first tokens."""
        unseen = self.owed_tokens - self.awaited_tokens()
        self.served += min(max(tokens, 0), max(unseen, 0))

    def owe_at_most(self, tokens: int) -> None:
        self.served = max(self.served, self.booked - self.void - tokens)

    def served_if_owed(self, tokens: int) -> int:
        """The served position if `tokens` are owed. The head of the waiting streams is not served."""
        served = self.booked - self.void - tokens
        if self.waiting:
            head = self.waiting[0]
            served = max(self.served, min(served, head.position - head.owed_tokens))
        return served

    def advance(self, booking: BookedPrompt, first_at: float) -> None:
        """Record that this prompt got its first token at about `first_at`."""
        self.served, self.since, self.delay_s = booking.position, max(first_at, self.since), 0.0

    def rewind(self, booking: BookedPrompt, first_at: float) -> int:
        """Correct the clock, which assumed the endpoint idle although it still had this prompt. Returns the
        tokens prefilled since then: of this prompt since it was booked, or of everything since the last
        position seen served, whichever gives the least time per token."""
        position, seen_at = self._seen
        tokens, took_s = booking.owed_tokens, first_at - booking.at
        if (first_at - seen_at) * tokens < took_s * (booking.position - position):
            tokens, took_s = booking.position - position, first_at - seen_at
        self.since, self.delay_s = first_at - took_s, 0.0
        return tokens

    # -- times

    def done_at(self, token_s: float) -> float:
        """When everything owed is prefilled, at `token_s` seconds per token."""
        return self.since + self.delay_s + self.owed_tokens * token_s

    def head_due(self, token_s: float, *, is_ordered: bool) -> float:
        """When the first token of the queue's head is due; infinite if no stream waits. An engine that does
        not serve in order may serve it last."""
        if not self.waiting:
            return math.inf
        return self.since + self.delay_s + self.head_tokens(is_ordered=is_ordered) * token_s

    def head_tokens(self, *, is_ordered: bool) -> int:
        """Tokens until the first token of the queue's head; 0 if no stream waits."""
        if not self.waiting:
            return 0
        last = self.waiting[0].position if is_ordered else self.booked - self.void
        return last - self.served

    def prefilled_so_far(self, now: float, token_s: float) -> float:
        """Running sum of the seconds of prefill done, with that in progress."""
        if not self.waiting:
            return self.prefilled_s
        head_tokens = self.waiting[0].position - self.served
        return self.prefilled_s + min(now - self.since, self.delay_s + head_tokens * token_s)
