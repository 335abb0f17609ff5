"""Evidence from a pool's requests about the health of its endpoints."""

from __future__ import annotations

import math

from headgate.fleet.blame import SharedStatuses
from headgate.fleet.ledger import EndpointState
from headgate.fleet.outliers import Tally
from headgate.fleet.served_models import LACKING_S, ModelPath
from headgate.fleet.waits import Waits

MEDIANS = 10.0
"""Silence longer than this many medians is suspicious: the endpoint is probed before it is abandoned."""


class Evidence:
    """Evidence of one pool. Outlives snapshots."""

    __slots__ = ("connects", "first_tokens", "prefills", "shared", "silences", "tally", "unserved_until")

    def __init__(self) -> None:
        self.shared = SharedStatuses()
        self.tally = Tally()
        """Recent attempts and failures of all endpoints."""
        self.silences = Waits(0.25, 2.0, MEDIANS), Waits(0.25, 2.0, MEDIANS)
        """Silence before the response: unstreamed, and streamed."""
        self.first_tokens = Waits(0.25, 2.0, MEDIANS)
        """Time to the first token of a stream, whose head may come long before."""
        self.prefills = Waits(0.25, 2.0, MEDIANS)
        """Silence of endpoints that prefill for others."""
        self.connects = Waits(0.01, 0.25)
        """Time to open a new connection."""
        self.unserved_until = -math.inf
        """Until when an endpoint may be known not to serve some path or model that others serve."""

    def failed(self, load: EndpointState, reason: str, now: float, attempts: int) -> bool:
        """Count a failure of an endpoint; returns whether it is ejected. `attempts`: all that the pool has
        made so far."""
        load.tally.failed(now, load.started)
        self.tally.failed(now, attempts)
        return load.failed(now, reason) or load.eject_if_outlier(self.tally, now)

    def disappointed(self, load: EndpointState, reason: str, now: float, attempts: int) -> bool:
        """Count an empty response, which may be the client's fault: an endpoint is ejected only if it sends
        them far more often than the others."""
        load.tally.failed(now, load.started)
        self.tally.failed(now, attempts)
        return load.disappoints(now, reason) or load.eject_if_outlier(self.tally, now)

    def not_found(self, load: EndpointState, asked: ModelPath, now: float) -> bool:
        """Record a 404 for what another endpoint serves. Returns whether the endpoint is healthy
        otherwise."""
        if not load.models.not_found(asked, now):
            return False
        load.cleared()
        self.unserved_until = now + LACKING_S
        return True

    def long_silence_s(self, is_streamed: bool, otherwise_s: float, now: float) -> float:
        """Silence before a response that is suspicious, in seconds; `otherwise_s` while too little is
        known."""
        return _or(self.silences[is_streamed].long_s(now), otherwise_s)

    def long_first_token_s(self, otherwise_s: float, now: float) -> float:
        """Like `long_silence_s`, for a stream that has sent nothing but its head."""
        return _or(self.first_tokens.long_s(now), otherwise_s)

    def long_prefill_s(self, otherwise_s: float, now: float) -> float:
        """Like `long_silence_s`, for an endpoint that prefills for another."""
        return _or(self.prefills.long_s(now), otherwise_s)


def _or(long_s: float | None, otherwise_s: float) -> float:
    return otherwise_s if long_s is None else long_s
