"""Passive outlier ejection: an endpoint that keeps failing gets no requests for a while, then few, then all.

Nothing is probed: what its requests came to is the evidence. Time is an argument, so that an outage of
hours is a test of milliseconds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import TypeVar

from headgate.fleet.ejection_policy import EjectionPolicy
from headgate.fleet.outliers import Tally, is_outlier

AVOID_AFTER_FAILURE_S = 1.0
"""How long an endpoint is picked only when no other is left, after any failure."""

LAST_FAILURES = 8
HANG = "hang"
"""The reason of whoever answered nothing."""
FIRST_SHARE = 0.1
"""What an endpoint that returns gets of its share at first: some requests, to learn from."""


class EndpointHealth:
    """What the requests of one endpoint tell about it. Changed only through its methods.

    The count of failures in a row is not begun anew by an ejection: who fails the first request after the
    return goes again, at the cost of that one request.
    """

    __slots__ = (
        "avoided_until",
        "ejected_for_s",
        "ejected_share",
        "ejected_until",
        "ejections",
        "failed_at",
        "failures",
        "failures_in_row",
        "hanging",
        "heard_at",
        "policy",
        "reasons",
        "rest_began_at",
        "resting_until",
        "suspect_until",
        "tally",
    )

    def __init__(self, policy: EjectionPolicy) -> None:
        self.policy = policy
        self.failures = 0
        self.failures_in_row = 0
        self.reasons: deque[str] = deque(maxlen=LAST_FAILURES)
        """Of its last failures."""
        self.failed_at = -math.inf
        self.avoided_until = -math.inf
        """Until then it is picked only when no other is left."""
        self.heard_at = -math.inf
        """When it last sent a part of an answer, as far as that is noted."""
        self.hanging = 0
        """How many of its requests have waited for longer than `policy.hang_s`; counted now and then."""
        self.ejections = 0
        self.ejected_until = -math.inf
        """When the ejection ends or ended; it is in force only within the bounds that `ejected` keeps."""
        self.ejected_for_s = 0.0
        """Length of the last ejection; half of that if an answer ended it."""
        self.ejected_share = 0.0
        """The share of failures among its requests that it was ejected for; 0 for failures in a row."""
        self.tally = Tally()
        """Of its requests and failures of late, as of its last failure."""
        self.resting_until = -math.inf
        """Until then it wants no requests, as it said itself."""
        self.rest_began_at = -math.inf
        self.suspect_until = -math.inf
        """Until then it is avoided, ejected, resting, or in its slow start; later it is like any other. One
        comparison of this tells the pick that it need not look closer."""

    def failed(self, now: float, reason: str = "failure") -> bool:
        """Notes a failure at `now` (monotonic seconds); `reason` is for people. Says whether the endpoint
        is ejected for it.

        Failures of requests that were under way as it was ejected do not make the ejection longer.
        """
        self.failures += 1
        self.reasons.append(reason)
        self.failures_in_row += 1
        self.failed_at = now
        self.suspected(now)
        enough = self.policy.failures
        if self.ejected_until > now or not enough:
            return False
        if self.failures_in_row < enough and not self._relapses(now):
            return False
        self._eject(now)
        return True

    def disappoints(self, now: float, reason: str) -> bool:
        """Notes a response that says nothing, though its status is good; says whether the endpoint is ejected
        as it is no better than before its last ejection."""
        self.failures += 1
        self.reasons.append(reason)
        self.failed_at = now
        if self.ejected_until > now or not self.policy.failures or not self._relapses(now):
            return False
        self._eject(now)
        return True

    def _relapses(self, now: float) -> bool:
        """Whether it has just returned from an ejection for its share of failures, and is no better."""
        is_on_trial = 0.0 < now - self.ejected_until < self.policy.slow_start_s
        return is_on_trial and 0.0 < self.ejected_share <= 2.0 * self.tally.share

    def stands_out(self, pool: Tally, now: float) -> bool:
        """Whether it fails far more often than the others of its pool, and is ejected for that now."""
        if self.ejected_until > now or not self.policy.failures or not is_outlier(self.tally, pool):
            return False
        self._eject(now)
        self.ejected_share = self.tally.share
        pool.subtract(self.tally)
        self.tally.clear()
        return True

    def suspected(self, now: float) -> None:
        """Notes a rejection that may be its own fault: it is avoided, but nothing counts yet."""
        self.avoided_until = now + AVOID_AFTER_FAILURE_S
        self._note_suspicion()

    def cleared(self) -> None:
        """Notes that the rejection was not its own fault."""
        self.avoided_until = self.failed_at + AVOID_AFTER_FAILURE_S
        self._note_suspicion()

    def rests(self, now: float, seconds: float) -> float:
        """Notes that it wants no requests for so long, which is no failure; says until when it gets none."""
        self.resting_until = max(self.resting_until, now + min(seconds, self.policy.longest_s))
        self.rest_began_at = now
        self._note_suspicion()
        return self.resting_until

    def rested(self) -> None:
        """Ends its rest."""
        self.resting_until = -math.inf
        self._note_suspicion()

    def _note_suspicion(self) -> None:
        """One of the times has changed that it is the latest of."""
        back_at = self.ejected_until + self.policy.slow_start_s
        self.suspect_until = max(self.avoided_until, self.resting_until, back_at)

    def hangs(self, now: float) -> bool:
        """Notes that all of its requests hang, which is as much as a row of failures."""
        self.failures_in_row = max(self.failures_in_row, self.policy.failures - 1)
        return self.failed(now, HANG)

    def _eject(self, now: float) -> None:
        """Twice as long as before, unless it has served since then for as long as it was away."""
        policy = self.policy
        if self.failures_in_row >= policy.failures:
            self.ejected_share = 0.0
        is_relapse = now - self.ejected_until <= max(self.ejected_for_s, policy.slow_start_s)
        self.ejected_for_s = min(2 * self.ejected_for_s, policy.longest_s) if is_relapse else policy.base_s
        self.ejected_until = now + self.ejected_for_s
        self.ejections += 1
        self._note_suspicion()

    def succeeded(self, now: float, asked_at: float = math.inf) -> None:
        """Notes a whole answer to a request of `asked_at`: the failures before it count no more."""
        self.failures_in_row = 0
        self.answered(now, asked_at)

    def answered(self, now: float, asked_at: float = math.inf) -> None:
        """Notes that an answer has begun: an ejection ends with a slow start. Streams that begin well and
        always break are failures in a row nevertheless. A rest, and an ejection for a share of failures, end
        only if it was asked since they began. An event loop's clock has milliseconds: what was asked in the
        one in which they began counts as asked since."""
        if asked_at >= self.rest_began_at:
            self.rested()
        if self.ejected_until > now and (
            not self.ejected_share or asked_at >= self.ejected_until - self.ejected_for_s
        ):
            self.ejected_for_s /= 2  # it served when it had to: should it go again, then for no longer
            self.ejected_until = now
            self._note_suspicion()

    def begins_anew(self, now: float) -> None:
        """Notes that its process has started again: what the one before failed with keeps it away no longer.
        If its first request fails, it goes again, for longer."""
        self.rested()
        if self.ejected_until > now:
            self.ejected_until = now
            self._note_suspicion()

    def may_be_tried(self, now: float) -> bool:
        """Whether the first time of its ejection is over, and another try would cost little: it answered at
        once, though with an error. A failure has it avoided for a second, as always."""
        ejected_s = now - (self.ejected_until - self.ejected_for_s)
        return ejected_s >= self.policy.base_s and bool(self.reasons) and "status" in self.reasons[-1]

    @property
    def away_until(self) -> float:
        """When it may have requests again, as far as its ejection and its rest go."""
        return max(self.ejected_until, self.resting_until)

    def avoided(self, now: float) -> bool:
        """Whether its last failure is so recent that any other is better."""
        return self.avoided_until > now

    def share(self, now: float) -> float:
        """How much of an endpoint's usual share it may get: 0 while ejected, then growing from 0.1 to 1."""
        back_s = now - self.ejected_until
        slow_start_s = self.policy.slow_start_s
        if back_s < 0:
            return 0.0
        return 1.0 if back_s >= slow_start_s else max(FIRST_SHARE, back_s / slow_start_s)


Health = TypeVar("Health", bound=EndpointHealth)


def most_ejected(pool: Sequence[Health]) -> int:
    """How many of a pool may be ejected at a time."""
    count = len(pool)
    return min(count * pool[0].policy.most_percent // 100, count - 1) if count else 0


def ejected(pool: Sequence[Health], now: float, most: int | None = None) -> list[Health]:
    """Those of a pool that get no requests for their failures: never more than `most_ejected` of it.

    Where more have failed, those that failed least recently take part: it is more likely then that the
    failures are not the endpoints' own, and the rest of a pool would not carry the load of all. `most` is
    that of the pool where only a part of it is given, with all that may be ejected.
    """
    out = [health for health in pool if health.ejected_until > now]
    if most is None:
        most = most_ejected(pool)
    if len(out) > most:
        out.sort(key=lambda health: health.failed_at, reverse=True)
        del out[most:]
    return out


def without_requests(pool: Sequence[Health], now: float) -> list[Health]:
    """Those of a pool that are ejected, and those that asked for no requests for a while."""
    out = ejected(pool, now)
    return [*out, *(health for health in pool if health.resting_until > now and health not in out)]


def hung(pool: Sequence[Health], now: float) -> list[Health]:
    """Those of a pool that accept requests and answer none, while others do.

    No request is cut off for it: a long queue, or long answers that come in one piece, look the same. It
    takes several requests, silence on all that the endpoint has, and another that was heard of meanwhile.
    """
    out = [
        health
        for health in pool
        if health.hanging >= health.policy.hang_requests
        and health.policy.failures > 0
        and now - health.heard_at > health.policy.hang_s
        and health.ejected_until <= now
    ]
    if not out or not any(now - health.heard_at <= health.policy.hang_s for health in pool):
        return []
    return out
