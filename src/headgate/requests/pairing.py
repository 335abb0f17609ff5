"""State of a request whose prompt one endpoint prefills and whose response another generates.

It keeps the connector's terms, the pair, the result of the prefill, and builds the bodies for both endpoints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate import scheduling
from headgate.engines import transfer
from headgate.requests import states
from headgate.requests.bodies.pieces import Pieces
from headgate.requests.terms import terms
from headgate.requests.usage import CACHED_TOKENS, with_cached

if TYPE_CHECKING:
    import random

    from headgate import routing
    from headgate.fleet import EndpointState
    from headgate.requests.bodies import large
    from headgate.requests.pool_state import PoolState
    from headgate.requests.prefill import PrefillAttempt

DISAGGREGATED = "remote"
"""The decision that another endpoint prefills the prompt."""
NOT_SPLIT = "not_split"
"""The pool has no phases any more."""
NOT_HANDED_OVER = "not_handed_over"
"""The prefill endpoint did not report where the cache is."""


class Pairing:
    """State of one request; created when it reaches a pool with separate prefill and decode."""

    __slots__ = (
        "_body",
        "_change",
        "_connector",
        "_is_fetched",
        "_meeting",
        "_phases",
        "_raw",
        "by_sidecar",
        "decision",
        "pair",
        "prefill",
        "terms",
        "tried",
    )

    def __init__(self, body: bytes | Pieces, change: large.Change | None) -> None:
        self._raw = body
        self._change = change
        self._body: transfer.Body | None = None
        self._connector: transfer.Connector | None = None
        self._phases: routing.PrefillDecode | None = None
        self.terms = scheduling.Terms()
        self._meeting = transfer.Meeting("", 0)
        self._is_fetched = False
        self.by_sidecar = False
        """Whether a sidecar of the decoding endpoint asks for the prefill."""
        self.pair: scheduling.Pair | None = None
        self.prefill: PrefillAttempt | None = None
        """The last prefill attempt; None if there was none, or it is useless by now."""
        self.tried: list[EndpointState] = []
        """Endpoints that failed to prefill the prompt."""
        self.decision = ""
        """`remote`, or why the decoding endpoint also prefills."""

    def take_terms(self, pool: PoolState, path: str, default_tokens: int) -> bool:
        """Apply the current terms of the pool, which its owner may change between two attempts. Return
        whether these make an earlier prefill useless."""
        phases = pool.pool.phases
        if phases is self._phases:
            return False
        self._phases = phases
        if phases is None:
            self._connector = self._body = None
            return True
        connector = transfer.connector(phases.connector)
        is_other = connector is not self._connector
        if is_other:
            self._connector = connector
            self._body = read_body(path, self._raw, self._change)
        self.terms = terms(pool, phases, self._body, default_tokens)
        return is_other

    # -- bodies of both requests

    def prefill_body(self, prefill: EndpointState, rng: random.Random) -> bytes | Pieces:
        """The body for the prefill endpoint."""
        assert self._body is not None
        assert self._connector is not None
        assert self._phases is not None
        port = self._phases.roles[prefill.endpoint].bootstrap_port
        self._meeting = self._connector.meeting(self._body, prefill.endpoint.host, port, rng)
        self._is_fetched = False
        return _payload(self._connector.prefill(self._body, self._meeting))

    def leave_to_sidecar(self) -> bytes | Pieces:
        """The body for a sidecar that asks for the prefill itself: the whole request as it is."""
        self.by_sidecar = True
        return self._raw

    def decode_body(self) -> bytes | Pieces:
        """The body for the decoding endpoint."""
        if self._body is None or self._connector is None:
            return self._raw
        if self.decision != DISAGGREGATED:
            return _payload(self._body.whole())
        handed_over = self.prefill.response.handed_over if self.prefill is not None else None
        return _payload(self._connector.decode(self._body, self._meeting, handed_over))

    @property
    def is_in_parts(self) -> bool:
        """Whether both bodies consist of parts of the client's body."""
        return self._change is not None

    # -- progress

    @property
    def at_once(self) -> bool:
        """Whether both endpoints get their requests at the same time."""
        return self._connector is not None and self._connector.at_once

    @property
    def needs_response(self) -> bool:
        """Whether the decoding endpoint needs data from the prefill's response."""
        return self._connector is not None and self._connector.needs_response

    @property
    def running(self) -> PrefillAttempt | None:
        """The prefill in progress."""
        return self.prefill if self.prefill is not None and not self.prefill.is_over else None

    @property
    def is_prefilled(self) -> bool:
        """Whether the prompt is prefilled, and its cache can still be fetched."""
        if self.prefill is None or not self.prefill.took_s:
            return False
        assert self._connector is not None
        return self._connector.can_repeat or not self._is_fetched

    @property
    def lacks_parameters(self) -> bool:
        """Whether the prefill's response lacks the data that the decoding endpoint needs."""
        assert self.prefill is not None
        return self.needs_response and self.prefill.response.handed_over is None

    @property
    def waits_for_prefill(self) -> bool:
        """Whether the decoding endpoint got its request before the prefill ended: its response head says
        nothing yet."""
        return self.at_once and self.running is not None

    def sent(self) -> None:
        """The decoding endpoint has the request, and may have fetched the cache."""
        self._is_fetched = True

    def responded(self, prompt_tokens: int, took_s: float) -> None:
        """The decoding endpoint sent its first token after `took_s`. Learn from it how long the transfer of a
        KV cache takes, unless the request was sent before there was one."""
        if self.decision != DISAGGREGATED or self.at_once or self.by_sidecar or self.pair is None:
            return
        fetched = max(prompt_tokens - self.pair.decode.cached_tokens, 0)
        self.pair.decode.load.estimator.rates.pool.learn_handover(fetched, took_s)

    def forget(self) -> None:
        """Drop the prompt, as no further attempt can follow."""
        self._raw = b""
        self._body = self._change = None

    def validate(self, state: int) -> None:
        """Raise AssertionError if the state is inconsistent."""
        assert (state != states.PREFILLING) or self.running is not None, "no prefill is in progress"
        assert self.pair is not None or self.running is None, "a prefill without a pair"
        if state & (states.NEW | states.READING | states.TOKENS | states.QUEUED | states.RETRYING):
            assert self.running is None, "a prefill without an attempt"

    # -- reports

    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens cached by the prefill endpoint; None if unknown."""
        return self.prefill.response.cached_tokens if self.prefill is not None else None

    def told(self) -> dict[str, object]:
        """For logs and debug pages."""
        prefill = self.prefill
        return {
            "decision": self.decision,
            "endpoint": prefill.load.endpoint.name if prefill is not None else None,
            "ms": int(prefill.took_s * 1e3 + 0.5) if prefill is not None and prefill.took_s else None,
            "cached_tokens": self.cached_tokens,
        }

    def counted(self, data: bytes) -> bytes:
        """Correct the cached tokens in a response: the decoding endpoint counts all tokens that were handed
        over, but clients should see those that the prefill endpoint had cached."""
        if data.find(CACHED_TOKENS) < 0:
            return data
        cached = self.cached_tokens
        return data if cached is None else with_cached(data, cached)


def read_body(path: str, body: bytes | Pieces, change: large.Change | None) -> transfer.Body | None:
    """The request as connectors see it; None if they cannot handle it."""
    if isinstance(body, bytes):
        return transfer.read(path, body)
    return change.for_transfer(path, body) if change is not None else None


def _payload(body: bytes | transfer.Buffers) -> bytes | Pieces:
    return body if isinstance(body, bytes) else Pieces(body)
