"""Passive outlier ejection: an endpoint that keeps failing gets no requests for a while, then few, then all.

Nothing is probed: the outcomes of requests are the evidence. Time is an argument, so tests cover hours in
milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

from headgate.fleet.ejection_policy import EjectionPolicy
from headgate.fleet.outliers import Tally, is_outlier

AVOID_AFTER_FAILURE_S = 1.0
"""For this long after any failure, an endpoint is picked only if no other is left."""

LAST_FAILURES = 8
HANG = "hang"
"""Failure reason of an endpoint that stopped responding."""
CONNECT, RESET = "connect", "reset"
"""Failure reasons of an endpoint that could not be connected to, and of one that closed a connection before
any part of a response."""
FIRST_SHARE = 0.1
"""The initial share of traffic of an endpoint that returns: a few requests, to learn from."""


class Ejection:
    """The current ejection of an endpoint, or the last one, which decides the length of the next."""

    __slots__ = ("count", "failure_rate", "length_s", "until")

    def __init__(self) -> None:
        self.count = 0
        self.until = -math.inf
        """Its end. An ejection applies only within the limits of `ejected`."""
        self.length_s = 0.0
        """Its length; half of that if a response ended it."""
        self.failure_rate = 0.0
        """What it was for; 0 if it was for consecutive failures."""

    @property
    def since(self) -> float:
        return self.until - self.length_s

    def begin(self, now: float, policy: EjectionPolicy) -> None:
        """Twice as long as before, unless the endpoint has served since then for as long as it was away."""
        is_relapse = now - self.until <= max(self.length_s, policy.slow_start_s)
        self.length_s = min(2 * self.length_s, policy.longest_s) if is_relapse else policy.base_s
        self.until = now + self.length_s
        self.count += 1

    def ends_with_response(self, now: float, asked_at: float) -> bool:
        """End it for a response that has begun to a request sent at `asked_at`, if that shows that the
        endpoint is better; returns whether it does."""
        if self.failure_rate and asked_at < self.since:
            return False
        self.length_s /= 2  # it served while ejected: do not lengthen the next ejection
        self.until = now
        return True

    def is_followed_by_relapse(self, failure_rate: float, now: float, policy: EjectionPolicy) -> bool:
        """Whether the endpoint has just returned from an ejection for its failure rate, and fails as often as
        before."""
        is_on_trial = 0.0 < now - self.until < policy.slow_start_s
        return is_on_trial and 0.0 < self.failure_rate <= 2.0 * failure_rate


class EndpointHealth:
    """Health of one endpoint, from the outcomes of its requests. Changed only through its methods.

    An ejection does not reset the count of consecutive failures: an endpoint that fails its first request
    after its return is ejected again, at the cost of that one request.
    """

    __slots__ = (
        "avoided_until",
        "ejection",
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
        self.reasons: tuple[str, ...] = ()
        """Reasons of the last failures. Most endpoints have none, and an empty deque would take 760 bytes."""
        self.failed_at = -math.inf
        self.avoided_until = -math.inf
        """Until then, it is picked only if no other endpoint is left."""
        self.heard_at = -math.inf
        """When it last sent a part of a response, as far as that is recorded."""
        self.hanging = 0
        """Requests that have waited longer than `policy.hang_s`; counted periodically."""
        self.ejection = Ejection()
        self.tally = Tally()
        """Recent requests and failures, as of the last failure."""
        self.resting_until = -math.inf
        """Until then it takes no requests, at its own request."""
        self.rest_began_at = -math.inf
        self.suspect_until = -math.inf
        """Until then it is avoided, ejected, resting, or in slow start. One comparison tells the pick that no
        closer look is needed."""

    def failed(self, now: float, reason: str = "failure") -> bool:
        """Record a failure at `now` (monotonic seconds); `reason` is for people. Returns whether the endpoint
        is ejected.

        Failures of requests that were in flight when it was ejected do not extend the ejection.
        """
        self.failures += 1
        self.reasons = (*self.reasons, reason)[-LAST_FAILURES:]
        self.failures_in_row += 1
        self.failed_at = now
        self.suspected(now)
        enough = self.policy.failures
        if self.ejection.until > now or not enough:
            return False
        if self.failures_in_row < enough and not self._relapses(now):
            return False
        self._eject(now)
        return True

    def disappoints(self, now: float, reason: str) -> bool:
        """Record an empty response with a good status. Returns whether the endpoint is ejected because it is
        no better than before its last ejection."""
        self.failures += 1
        self.reasons = (*self.reasons, reason)[-LAST_FAILURES:]
        self.failed_at = now
        if self.ejection.until > now or not self.policy.failures or not self._relapses(now):
            return False
        self._eject(now)
        return True

    def _relapses(self, now: float) -> bool:
        return self.ejection.is_followed_by_relapse(self.tally.share, now, self.policy)

    def eject_if_outlier(self, pool: Tally, now: float) -> bool:
        """Eject it if it fails far more often than the others of its pool; returns whether it was ejected."""
        if self.ejection.until > now or not self.policy.failures or not is_outlier(self.tally, pool):
            return False
        self._eject(now)
        self.ejection.failure_rate = self.tally.share
        pool.subtract(self.tally)
        self.tally.clear()
        return True

    def suspected(self, now: float) -> None:
        """Record a rejection that may be the endpoint's fault: it is avoided, but no failure counts yet."""
        self.avoided_until = now + AVOID_AFTER_FAILURE_S
        self._update_suspect_until()

    def cleared(self) -> None:
        """Record that the rejection was not the endpoint's fault."""
        self.avoided_until = self.failed_at + AVOID_AFTER_FAILURE_S
        self._update_suspect_until()

    def rests(self, now: float, seconds: float) -> float:
        """Record that it asked for no requests for `seconds`, which is no failure. Returns when the rest
        ends."""
        self.resting_until = max(self.resting_until, now + min(seconds, self.policy.longest_s))
        self.rest_began_at = now
        self._update_suspect_until()
        return self.resting_until

    def rested(self) -> None:
        """End its rest."""
        self.resting_until = -math.inf
        self._update_suspect_until()

    def _update_suspect_until(self) -> None:
        """Recompute `suspect_until` after one of its parts changed."""
        back_at = self.ejection.until + self.policy.slow_start_s
        self.suspect_until = max(self.avoided_until, self.resting_until, back_at)

    def hangs(self, now: float) -> bool:
        """Record that all of its requests hang, which counts as `policy.failures` consecutive failures."""
        self.failures_in_row = max(self.failures_in_row, self.policy.failures - 1)
        return self.failed(now, HANG)

    def _eject(self, now: float) -> None:
        if self.failures_in_row >= self.policy.failures:
            self.ejection.failure_rate = 0.0
        self.ejection.begin(now, self.policy)
        self._update_suspect_until()

    def succeeded(self, now: float, asked_at: float = math.inf) -> None:
        """Record a complete response to a request sent at `asked_at`: resets the consecutive failures."""
        self.failures_in_row = 0
        self.responded(now, asked_at)

    def responded(self, now: float, asked_at: float = math.inf) -> None:
        """Record that a response has begun: an ejection ends with a slow start. Streams that begin well and
        always break still count as consecutive failures. A rest, and an ejection for a failure rate, end only
        if the request was sent after they began. An event loop's clock has a resolution of milliseconds, so
        the same millisecond counts as after."""
        if asked_at >= self.rest_began_at:
            self.rested()
        ejection = self.ejection
        if ejection.until > now and ejection.ends_with_response(now, asked_at):
            self._update_suspect_until()

    def begins_anew(self, now: float) -> None:
        """Record that its process has restarted: earlier failures no longer keep it away. If its first
        request fails, it is ejected again, for longer."""
        self.rested()
        if self.ejection.until > now:
            self.ejection.until = now
            self._update_suspect_until()

    def may_be_tried(self, now: float) -> bool:
        """Whether it may be tried early: the base time of its ejection has passed, and a failed try costs
        little because its last failure was an immediate error status. As usual, it is avoided for a second
        after a failure."""
        ejected_s = now - self.ejection.since
        return ejected_s >= self.policy.base_s and bool(self.reasons) and "status" in self.reasons[-1]

    @property
    def away_until(self) -> float:
        """When its ejection and its rest are over."""
        return max(self.ejection.until, self.resting_until)

    def avoided(self, now: float) -> bool:
        """Whether its last failure is so recent that any other endpoint is better."""
        return self.avoided_until > now

    def is_unreachable(self, now: float) -> bool:
        """Whether it could not be connected to just now, or has closed a connection without a response, as
        when its process ends."""
        return self.avoided_until > now and bool(self.reasons) and self.reasons[-1] in (CONNECT, RESET)

    def share(self, now: float) -> float:
        """The share of its usual traffic that it may get: 0 while ejected, then growing from 0.1 to 1."""
        back_s = now - self.ejection.until
        slow_start_s = self.policy.slow_start_s
        if back_s < 0:
            return 0.0
        return 1.0 if back_s >= slow_start_s else max(FIRST_SHARE, back_s / slow_start_s)


Health = TypeVar("Health", bound=EndpointHealth)


def most_ejected(pool: Sequence[Health]) -> int:
    """How many endpoints of a pool may be ejected at a time."""
    count = len(pool)
    return min(count * pool[0].policy.most_percent // 100, count - 1) if count else 0


def ejected(pool: Sequence[Health], now: float, most: int | None = None) -> list[Health]:
    """The endpoints of a pool that get no requests because of failures: at most `most_ejected`.

    If more have failed, those that failed least recently stay in use: the cause is then more likely not the
    endpoints themselves, and the rest of the pool could not carry the load. Where `pool` is only a part of a
    pool, with all candidates for ejection, `most` is the limit of the whole pool.
    """
    out = [health for health in pool if health.ejection.until > now]
    if most is None:
        most = most_ejected(pool)
    if len(out) > most:
        out.sort(key=lambda health: health.failed_at, reverse=True)
        del out[most:]
    return out


def without_requests(pool: Sequence[Health], now: float) -> list[Health]:
    """The endpoints of a pool that are ejected or that asked for no requests for a while."""
    out = ejected(pool, now)
    return [*out, *(health for health in pool if health.resting_until > now and health not in out)]


def hung(pool: Sequence[Health], now: float) -> list[Health]:
    """The endpoints of a pool that accept requests and do not respond, while others do.

    No request is cancelled for it: a long queue, or long unstreamed responses, look the same. It takes
    several waiting requests, silence on all requests of the endpoint, and another endpoint that responded
    meanwhile.
    """
    out = [
        health
        for health in pool
        if health.hanging >= health.policy.hang_requests
        and health.policy.failures > 0
        and now - health.heard_at > health.policy.hang_s
        and health.ejection.until <= now
    ]
    if not out or not any(now - health.heard_at <= health.policy.hang_s for health in pool):
        return []
    return out
