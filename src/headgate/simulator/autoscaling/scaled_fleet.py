"""Replicas that start, serve and drain, and the gateway that spreads requests over those that are ready."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Sequence

from headgate.requests.traffic import PoolTraffic
from headgate.simulator.autoscaling.replica import Replica
from headgate.simulator.autoscaling.work import Ledger, Work
from headgate.simulator.model import EngineConfig

_RUNNING_S = 0.01
"""What a request in the batch counts for beside prompts, when the gateway picks a replica."""


class ScaledFleet:
    """Replicas of one kind. Those that start or drain cost as much as those that serve."""

    def __init__(self, engine: EngineConfig, cold_start_s: float, ledger: Ledger, replicas: int) -> None:
        self.engine = engine
        self.cold_start_s = cold_start_s
        self.ledger = ledger
        self.now = 0.0
        self.ready: list[Replica] = []
        self.draining: list[Replica] = []
        self.starting: deque[tuple[float, str]] = deque()
        """When each will be ready, and its name, oldest first."""
        self.held: deque[Work] = deque()
        """Requests that wait in the gateway, since no replica is ready."""
        self.traffic = PoolTraffic(0.0)
        """What the gateway counts; its expected output tokens are not known here."""
        self.replica_s = 0.0
        """Seconds of replicas that start, serve or drain, until now."""
        self.starts = 0
        self._named = 0
        for _ in range(replicas):
            self.ready.append(Replica(self._name(), engine, ledger, 0.0))

    @property
    def current(self) -> int:
        """Replicas that are wanted: those that serve, and those that start."""
        return len(self.ready) + len(self.starting)

    @property
    def in_flight(self) -> int:
        """Requests in the gateway and in engines."""
        return (
            len(self.held)
            + sum(each.requests for each in self.ready)
            + sum(each.requests for each in self.draining)
        )

    def advance(self, now: float) -> None:
        """Let all work until `now`; starts end and drained replicas are gone at their times."""
        while self.starting and self.starting[0][0] <= now:
            at_s, name = self.starting[0]
            self._count(at_s)
            self.starting.popleft()
            self.ready.append(Replica(name, self.engine, self.ledger, at_s))
            while self.held:
                self._send(self.held.popleft(), at_s)
        for each in self.ready:
            each.advance(now)
        for each in list(self.draining):
            each.advance(now)
            if not each.requests:
                self.draining.remove(each)
        self._count(now)

    def arrive(self, work: Work) -> None:
        """A request arrives, at its time."""
        if self.starting and self.starting[0][0] <= work.at_s:
            self.advance(work.at_s)
        self.ledger.arrive(work)
        self.traffic.entered(work.at_s).asks(work.uncached_tokens, 0, 0)
        if self.ready:
            self._send(work, work.at_s)
        else:
            self.held.append(work)

    def scale(self, desired: int) -> None:
        """Start or stop replicas now, as a Deployment does: those that are not ready yet stop first."""
        while self.current < desired:
            self.starting.append((self.now + self.cold_start_s, self._name()))
            self.starts += 1
        while self.current > desired and self.starting:
            self.starting.pop()
        while self.current > desired:
            leaving = min(reversed(self.ready), key=lambda each: each.requests)
            self.ready.remove(leaving)
            if leaving.requests:
                self.draining.append(leaving)

    def fork(self) -> ScaledFleet:
        """A copy that goes on alone, with the same ledger."""
        twin = copy.copy(self)
        twin.ready = [each.fork() for each in self.ready]
        twin.draining = [each.fork() for each in self.draining]
        twin.starting = self.starting.copy()
        twin.held = self.held.copy()
        twin.traffic = copy.copy(self.traffic)
        return twin

    def _send(self, work: Work, now: float) -> None:
        least_loaded(self.ready, now).take(work, now)

    def _count(self, now: float) -> None:
        replicas = len(self.ready) + len(self.starting) + len(self.draining)
        self.replica_s += replicas * (now - self.now)
        self.now = now

    def _name(self) -> str:
        self._named += 1
        return f"replica-{self._named - 1}"


def least_loaded(replicas: Sequence[Replica], now: float) -> Replica:
    """The replica with the least work, as a gateway picks it; the first one of several."""
    best, least = replicas[0], float("inf")
    if len(replicas) == 1:
        return best
    for each in replicas:
        queued_s = each.free_at - now
        load = (queued_s if queued_s > 0.0 else 0.0) + _RUNNING_S * each.decoding
        if load < least:
            best, least = each, load
    return best
