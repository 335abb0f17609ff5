"""What the requests of a pool tell about the health of its endpoints."""

from __future__ import annotations

import math

from headgate.fleet.blame import SharedStatuses
from headgate.fleet.ledger import LACKING_S, EndpointState, ModelPath
from headgate.fleet.outliers import Tally
from headgate.fleet.waits import Waits

MEDIANS = 10.0
"""So many medians of silence are suspicious: whoever is silent is asked before it is left."""


class Evidence:
    """Of one pool. Outlives its snapshots."""

    __slots__ = ("connects", "first_tokens", "prefills", "shared", "silences", "tally", "unserved_until")

    def __init__(self) -> None:
        self.shared = SharedStatuses()
        self.tally = Tally()
        """Attempts and failures of all its endpoints of late."""
        self.silences = Waits(0.25, 2.0, MEDIANS), Waits(0.25, 2.0, MEDIANS)
        """How long endpoints are silent before their response, if it is not streamed, and if it is."""
        self.first_tokens = Waits(0.25, 2.0, MEDIANS)
        """How long endpoints take for the first token of a stream, whose head may have come long before."""
        self.prefills = Waits(0.25, 2.0, MEDIANS)
        """How long endpoints are silent that prefill for others."""
        self.connects = Waits(0.01, 0.25)
        """How long new connections take."""
        self.unserved_until = -math.inf
        """Until when an endpoint may be known not to serve some path or model that others serve."""

    def failed(self, load: EndpointState, reason: str, now: float, attempts: int) -> bool:
        """Counts a failure of an endpoint; says whether it is ejected for it. `attempts` are all that the
        pool has made so far."""
        load.tally.failed(now, load.started)
        self.tally.failed(now, attempts)
        return load.failed(now, reason) or load.stands_out(self.tally, now)

    def disappointed(self, load: EndpointState, reason: str, now: float, attempts: int) -> bool:
        """Counts a response that is no failure by itself, as it may be the client's fault that it says
        nothing: an endpoint is ejected for it only if it does so far more often than the others."""
        load.tally.failed(now, load.started)
        self.tally.failed(now, attempts)
        return load.disappoints(now, reason) or load.stands_out(self.tally, now)

    def not_found(self, load: EndpointState, asked: ModelPath, now: float) -> bool:
        """Notes that an endpoint answered 404 for what another serves. Says whether it is well otherwise."""
        if not load.does_not_serve(asked, now):
            return False
        self.unserved_until = now + LACKING_S
        return True

    def long_silence_s(self, is_streamed: bool, otherwise_s: float, now: float) -> float:
        """From when on silence before a response is suspicious; `otherwise_s` while too little is known."""
        return _or(self.silences[is_streamed].long_s(now), otherwise_s)

    def long_first_token_s(self, otherwise_s: float, now: float) -> float:
        """The same of a stream whose head has come, and nothing else."""
        return _or(self.first_tokens.long_s(now), otherwise_s)

    def long_prefill_s(self, otherwise_s: float, now: float) -> float:
        """The same of an endpoint that prefills for another."""
        return _or(self.prefills.long_s(now), otherwise_s)


def _or(long_s: float | None, otherwise_s: float) -> float:
    return otherwise_s if long_s is None else long_s
