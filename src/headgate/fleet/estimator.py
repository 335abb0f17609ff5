"""How long a request would wait for its first token on an endpoint: its queue, and its own prefill.

    first token = queue + uncached tokens * seconds per token + delay

The queue is the work that was booked before it and not seen served, at the learned rate, less the time that
has passed since the endpoint took it up: a sum of open prompts alone overstates, as the endpoint works on the
first of them. Each first token that is seen corrects the clock: engines serve prompts in the order of their
arrival, so that what was booked before it is served, and what was booked after it is not.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from headgate.fleet.rates import Rates

if TYPE_CHECKING:
    from headgate.fleet.ledger import Booking

GROUP_TOKENS = 2048
"""Prompts are observed together until they have so many tokens: engines prefill several in one step, and
their first tokens come at once."""
OWN_AFTER = 8
"""An endpoint learns with the others of its pool until it has made so many observations."""


class Estimator:
    """The clock of one endpoint. Told of bookings, first tokens and ends; each costs the same at any load."""

    __slots__ = (
        "_booked",
        "_booked_at",
        "_delay_s",
        "_group_s",
        "_group_starts",
        "_group_tokens",
        "_is_blurred",
        "_own",
        "_served",
        "_since",
        "_void",
        "_waiting",
        "busy_until",
        "head_due",
        "pause_s",
        "rates",
    )

    def __init__(self) -> None:
        self.rates = Rates()
        """Shared with the pool at first, its own later."""
        self.busy_until = -math.inf
        """When it will have prefilled all that was booked, while the first in its queue is not overdue."""
        self.head_due = math.inf
        """When the first token of the first in its queue is expected; infinite if nothing is to be seen."""
        self.pause_s = math.inf
        """Seconds between the last two requests that were sent to it."""
        self._booked_at = -math.inf
        self._own = 0
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
        """Whether it is unknown when the first in the queue was begun: nothing is learned from that one."""

    def join(self, shared: Rates) -> None:
        """Learns with others, and from them, until it knows enough of itself."""
        if self._own < OWN_AFTER:
            self.rates = shared

    # -- what is predicted

    def queue_s(self, now: float) -> float:
        """Seconds until it would take up a request that comes now.

        If the first in the queue is overdue, it is expected to take as long again as it is late: nothing is
        known but that, and an endpoint that has stopped looks worse the longer it is silent.
        """
        if now > self.head_due:
            return self.busy_until + now - 2.0 * self.head_due
        return max(0.0, self.busy_until - now)

    def first_token_s(self, uncached_tokens: float, now: float) -> float:
        """Seconds until the first token of a request of which so many tokens are to be prefilled."""
        rates = self.rates
        return self.queue_s(now) + uncached_tokens * rates.token_s + rates.delay_s

    # -- what happens

    def booked(self, booking: Booking, now: float) -> None:
        """A request is on its way to the endpoint."""
        self.pause_s = now - self._booked_at
        self._booked_at = now
        if self._served == self._booked or (not self._waiting and self.busy_until <= now):
            self._served, self._void, self._since = self._booked, 0, now
            self._delay_s = self.rates.delay_s
            self._is_blurred = False
            self._close_group()
            self._group_starts = 1
        self._booked += booking.uncached_tokens + 1  # and the first of the answer
        booking.position = self._booked
        if booking.is_streamed:
            self._waiting.append(booking)
        self._set_clock()

    def first_token(self, booking: Booking, now: float) -> None:
        """The first token of a streamed request is here: all before it is served, nothing after it."""
        if booking.position <= self._served:
            return
        waiting = self._waiting
        tokens = booking.position - self._served
        while waiting and waiting[0].position <= booking.position:
            passed = waiting.popleft()
            if passed.is_over:
                self._void -= passed.uncached_tokens + 1
                tokens -= passed.uncached_tokens + 1
        if self._is_blurred:
            self._is_blurred = False
            self._forget_group()
        else:
            self._group_tokens += tokens
            self._group_s += now - self._since
        self._served, self._since, self._delay_s = booking.position, now, 0.0
        if self._group_tokens >= GROUP_TOKENS:
            self._close_group()
        self._pass_given_up()
        self._set_clock()

    def given_up(self, booking: Booking) -> None:
        """A streamed request ended without a first token: its prompt is owed no more."""
        if booking.position <= self._served:
            return
        self._void += booking.uncached_tokens + 1
        if self._pass_given_up():
            self._is_blurred = True
        self._set_clock()

    def _pass_given_up(self) -> bool:
        """Whether the first in the queue were given up: they are there no more."""
        waiting = self._waiting
        if not waiting or not waiting[0].is_over:
            return False
        while waiting and waiting[0].is_over:
            tokens = waiting.popleft().uncached_tokens + 1
            self._void -= tokens
            self._served += tokens
        return True

    def _close_group(self) -> None:
        """Learns from the prompts that were observed together."""
        if self._group_tokens:
            self._own += 1
            if self._own == OWN_AFTER:
                self.rates = self.rates.fork()
            self.rates.learn(self._group_starts, self._group_tokens, self._group_s)
        self._forget_group()

    def _forget_group(self) -> None:
        self._group_tokens = self._group_starts = 0
        self._group_s = 0.0

    def _set_clock(self) -> None:
        token_s = self.rates.token_s
        begin = self._since + self._delay_s
        self.busy_until = begin + (self._booked - self._served - self._void) * token_s
        waiting = self._waiting
        self.head_due = begin + (waiting[0].position - self._served) * token_s if waiting else math.inf
