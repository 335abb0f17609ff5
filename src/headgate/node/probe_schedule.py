"""When a probe runs next, and what its results add up to. Pure: `now` is an argument.

Kubernetes probes at fixed intervals from the start on. On one machine, nobody wants to wait ten seconds for
an engine that is up after one, so until the first success, readiness and startup probes run after 50 ms, and
soon four times a second, or once if they are commands. This does not change what counts as a failure: a
startup probe fails after failureThreshold periods, however often it ran.
"""

from enum import StrEnum

from headgate import api

EAGER_FIRST_S, EAGER_S, EAGER_EXEC_S = 0.05, 0.25, 1.0


class ProbeKind(StrEnum):
    READINESS = "readiness"
    LIVENESS = "liveness"
    STARTUP = "startup"


class ProbeSchedule:
    """One probe of one running container."""

    def __init__(
        self, kind: ProbeKind, probe: api.Probe, started_at: float, eager_s: float = EAGER_S
    ) -> None:
        """`eager_s`: the longest pause before the first success."""
        self._kind = kind
        self._longest_eager_s = eager_s
        self._period_s = max(probe.period_seconds, 1)
        self._failures_needed = max(probe.failure_threshold, 1)
        self._successes_needed = max(probe.success_threshold, 1)
        self._first_at = started_at + max(probe.initial_delay_seconds, 0)
        self._ever_healthy = False
        self._failures = self._successes = 0
        self._eager_s = EAGER_FIRST_S
        self._counted_at: float | None = None
        self.next_at = self._first_at
        self.healthy: bool | None = None
        """The result so far; None until there is one."""

    def answered(self, healthy: bool, now: float) -> bool:
        """Process a result; True if the overall result changed."""
        before = self.healthy
        if healthy:
            self._succeeded()
        else:
            self._failed(now)
        self.next_at = now + self._pause_s()
        return self.healthy is not before

    def _pause_s(self) -> float:
        if self._ever_healthy or self._kind is ProbeKind.LIVENESS:
            return self._period_s
        pause_s, self._eager_s = self._eager_s, min(self._longest_eager_s, 2 * self._eager_s)
        return pause_s

    def _succeeded(self) -> None:
        self._ever_healthy = True
        self._failures = 0
        self._successes += 1
        if self._successes >= self._successes_needed:
            self.healthy = True

    def _failed(self, now: float) -> None:
        self._successes = 0
        if (
            self._counted_at is not None
            and not self._ever_healthy
            and now < self._counted_at + self._period_s
        ):
            return
        self._counted_at = now
        self._failures += 1
        if self._failures >= self._failures_needed:
            self.healthy = False
