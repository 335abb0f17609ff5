"""What is kept of a request whose prompt one endpoint prefills and whose answer another generates.

It knows the connector's terms, which pair serves, what the prefill came to, and what each of both is sent.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from headgate import routing, scheduling
from headgate.engines import transfer
from headgate.gateway.prefill import Listener, Prefill
from headgate.requests.bodies import large
from headgate.requests.bodies.pieces import Pieces
from headgate.requests.terms import terms
from headgate.requests.usage import CACHED_TOKENS, with_cached

if TYPE_CHECKING:
    from headgate.fleet import EndpointState
    from headgate.gateway.proxy import Proxy
    from headgate.gateway.request import Request
    from headgate.requests.decision import Decision
    from headgate.requests.pool_state import PoolState

DISAGGREGATED = "remote"
"""How it is called that the prompt is prefilled by another endpoint."""
NOT_SPLIT = "not_split"
"""The pool has no phases any more."""
NOT_HANDED_OVER = "not_handed_over"
"""The endpoint that prefilled does not say where the cache is."""


class Handover:
    """Of one request; made once it comes to a pool in which prefill and decode are apart."""

    __slots__ = (
        "_asked",
        "_body",
        "_change",
        "_connector",
        "_is_fetched",
        "_meeting",
        "_phases",
        "_proxy",
        "_raw",
        "_request",
        "_request_id",
        "_scheduled",
        "_terms",
        "decision",
        "pair",
        "prefill",
        "tried",
    )

    def __init__(self, proxy: Proxy, request: Request, request_id: bytes, decision: Decision) -> None:
        self._proxy = proxy
        self._request = request
        self._request_id = request_id
        self._scheduled = decision.scheduled
        self._asked = decision.upstream_model, request.path
        self._raw = decision.body
        self._change = decision.change
        self._body: transfer.Body | None = None
        self._connector: transfer.Connector | None = None
        self._phases: routing.PrefillDecode | None = None
        self._terms = scheduling.Terms()
        self._meeting = transfer.Meeting("", 0)
        self._is_fetched = False
        self.pair: scheduling.Pair | None = None
        self.prefill: Prefill | None = None
        """The last attempt at it; None if there was none."""
        self.tried: list[EndpointState] = []
        """Endpoints that failed to prefill it."""
        self.decision = ""
        """`remote`, or why the endpoint that answers does it all."""

    # -- who serves

    def pick(self, pool: PoolState, tried: list[EndpointState]) -> scheduling.Pair | None:
        """The next pair: with what was prefilled already, where that can be fetched. Changes nothing."""
        self._read_terms(pool)
        if pool.pairs is None:
            choice = self._proxy.pick(pool, self._scheduled, tried, self._proxy.now())
            if choice is None:
                return None
            return scheduling.Pair(decode=choice, request=self._scheduled, why=NOT_SPLIT)
        if self.is_prefilled and self.pair is not None:
            again = self._proxy.pick_again(pool, self.pair, tried)
            if again is not None:
                return again
        if lacking := pool.not_serving(self._asked, self._proxy.now()):
            tried_prefill = [*self.tried, *lacking]
            pair = self._proxy.pick_pair(
                pool, self._scheduled, self._terms, [*tried, *lacking], tried_prefill
            )
            if pair is not None:
                return pair
        return self._proxy.pick_pair(pool, self._scheduled, self._terms, tried, self.tried)

    def _read_terms(self, pool: PoolState) -> None:
        """Those of the pool as it is now: its owner may have changed it between two attempts."""
        phases = pool.pool.phases
        if phases is self._phases:
            return
        self._phases = phases
        if phases is None:
            self.discard()
            self._connector = self._body = None
            return
        connector = transfer.connector(phases.connector)
        if connector is not self._connector:
            self.discard()
            self._connector = connector
            self._body = read_body(self._request.path, self._raw, self._change)
        self._terms = terms(pool, phases, self._body, self._proxy.settings.prefill.remote_min_tokens)

    # -- what both are sent

    def begin(self, pool: PoolState, pair: scheduling.Pair, listener: Listener, rng: random.Random) -> None:
        """Sends the prompt to the endpoint that prefills it."""
        assert self._body is not None
        assert self._connector is not None
        assert pair.prefill is not None
        assert pair.prefill_request is not None
        assert pool.pool.phases is not None
        endpoint = pair.prefill.load.endpoint
        port = pool.pool.phases.roles[endpoint].bootstrap_port
        self._meeting = self._connector.meeting(self._body, endpoint.host, port, rng)
        self._is_fetched = False
        body = _payload(self._connector.prefill(self._body, self._meeting))
        self.prefill = Prefill(
            self._proxy,
            pool,
            listener,
            pair.prefill,
            self._request.parts(body, self._request_id),
            needs_answer=self._connector.needs_answer,
        )
        self.prefill.start(pair.prefill_request)

    def payload(self) -> tuple[bytes, bytes | Pieces]:
        """What is sent to the endpoint that answers; a long body by itself."""
        return self._request.parts(self._decode_body(), self._request_id)

    def _decode_body(self) -> bytes | Pieces:
        if self._body is None or self._connector is None:
            return self._raw
        if self.decision != DISAGGREGATED:
            return _payload(self._body.whole())
        handed_over = self.prefill.answer.handed_over if self.prefill is not None else None
        return _payload(self._connector.decode(self._body, self._meeting, handed_over))

    # -- how far it is

    @property
    def at_once(self) -> bool:
        """Whether both endpoints are asked at the same time."""
        return self._connector is not None and self._connector.at_once

    @property
    def running(self) -> Prefill | None:
        """The prefill that is under way."""
        return self.prefill if self.prefill is not None and not self.prefill.is_over else None

    @property
    def is_prefilling(self) -> bool:
        return self.running is not None

    @property
    def is_prefilled(self) -> bool:
        """Whether the prompt is prefilled, and nobody can have fetched it for the last time."""
        if self.prefill is None or not self.prefill.took_s:
            return False
        assert self._connector is not None
        return self._connector.can_repeat or not self._is_fetched

    @property
    def lacks_parameters(self) -> bool:
        """Whether the prefill's answer does not say what the endpoint that answers has to know."""
        assert self._connector is not None
        assert self.prefill is not None
        return self._connector.needs_answer and self.prefill.answer.handed_over is None

    def sent(self) -> None:
        """The endpoint that answers has the request: it may have fetched what was prefilled."""
        self._is_fetched = True

    def answered(self, took_s: float) -> None:
        """The endpoint that answers has sent its first token, so long after it was asked: that teaches how
        long a KV cache takes to come there, unless it was asked before there was one."""
        if self.decision != DISAGGREGATED or self.at_once or self.pair is None:
            return
        fetched = max(self._scheduled.prompt_tokens - self.pair.decode.cached_tokens, 0)
        self.pair.decode.load.estimator.rates.pool.learn_handover(fetched, took_s)

    def discard(self) -> None:
        """What was prefilled is of no use any more."""
        if self.prefill is not None:
            self.prefill.drop()
            self.prefill = None
        self.pair = None

    def drop(self) -> None:
        """Stops a prefill that is under way."""
        if self.prefill is not None:
            self.prefill.drop()

    def settled(self, *, is_served: bool) -> None:
        """The request is over. A prefill that is still under way has done its work where the answer is
        complete, and only its own answer is late."""
        if self.prefill is not None and not self.prefill.is_over:
            if is_served:
                self.prefill.leave()
            else:
                self.prefill.drop()

    def forget(self) -> None:
        """Nothing is sent again: the prompt need not be held."""
        self._raw = b""
        self._body = self._change = None

    # -- what is told of it

    @property
    def cached_tokens(self) -> int | None:
        """Of the prompt, in the cache of the endpoint that prefilled it; None where that is not known."""
        return self.prefill.answer.cached_tokens if self.prefill is not None else None

    def told(self) -> dict[str, object]:
        """For logs and debug pages."""
        prefill = self.prefill
        return {
            "decision": self.decision,
            "endpoint": prefill.load.endpoint.name if prefill is not None else None,
            "ms": int(prefill.took_s * 1e3 + 0.5) if prefill is not None and prefill.took_s else None,
            "cached_tokens": self.cached_tokens,
        }

    def counting(self, write: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """Writes with the count of cached tokens that is told of the prefill."""

        def write_counted(data: bytes) -> None:
            write(self.counted(data))

        return write_counted

    def counted(self, data: bytes) -> bytes:
        """What the endpoint that answers counts as cached are all tokens that were handed over to it: the
        client is told how many the other one had in its cache."""
        if CACHED_TOKENS not in data:
            return data
        cached = self.cached_tokens
        return data if cached is None else with_cached(data, cached)


def read_body(path: str, body: bytes | Pieces, change: large.Change | None) -> transfer.Body | None:
    """What the connectors see of a request; None if they cannot do anything with it."""
    if isinstance(body, bytes):
        return transfer.read(path, body)
    return change.for_transfer(path, body) if change is not None else None


def _payload(body: bytes | transfer.Buffers) -> bytes | Pieces:
    return body if isinstance(body, bytes) else Pieces(body)
