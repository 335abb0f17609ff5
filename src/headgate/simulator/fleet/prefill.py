"""A prompt on the prefill endpoint: the prefill, then the transfer of its KV cache.

If the endpoint dies during the transfer, the decode endpoint computes the prompt, as in vLLM.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from headgate.engines.transfer import PrefillResponse
from headgate.requests import prefill_way

if TYPE_CHECKING:
    from headgate.fleet import EndpointState
    from headgate.requests.life import Life
    from headgate.requests.prefill import PrefillAttempt
    from headgate.simulator.fleet.endpoint import SimulatedEndpoint
    from headgate.simulator.fleet.observer import Observer
    from headgate.simulator.fleet.request import TracedRequest
    from headgate.simulator.fleet.timeline import Timeline
    from headgate.simulator.fleet.transfers import SharedLink, Transfer
    from headgate.simulator.model import FinishedRequest, RequestId

_HANDED_OVER = PrefillResponse(kv_transfer_params=msgspec.Raw(b"{}"))
_WRONG = 400


class Owner(Protocol):
    """The request that the prompt belongs to."""

    request: TracedRequest
    life: Life

    @property
    def request_id(self) -> RequestId: ...
    def perform(self) -> None: ...


class Gateway(Protocol):
    """The parts of the run that a prefill needs."""

    timeline: Timeline
    observer: Observer
    link: SharedLink

    def endpoint(self, load: EndpointState) -> SimulatedEndpoint: ...


class SimulatedPrefill:
    """Listens to the prefill endpoint, and watches it while it transfers the cache."""

    def __init__(self, owner: Owner, gateway: Gateway, attempt: PrefillAttempt) -> None:
        self._owner = owner
        self._gateway = gateway
        self._attempt = attempt
        self._endpoint = gateway.endpoint(attempt.load)
        config = self._endpoint.config
        self._request = owner.request.asked(owner.request_id, config, output_tokens=1, keeps_kv=True)
        self._transfer: Transfer | None = None
        self._fetched: Callable[[int], None] | None = None
        self._is_settled = False

    @property
    def _now(self) -> float:
        return self._gateway.timeline.now

    def start(self) -> None:
        prefill_way.prefill_sent(self._owner.life, self._now)
        self._endpoint.send(self._request, self)

    def give_up(self) -> None:
        """The cache is no longer needed."""
        if not self._is_settled:
            self._settle()
            self._endpoint.cancel(self._request.request_id)
        else:
            self._end_transfer()

    def _settle(self) -> None:
        """The endpoint finished the prefill, or failed."""
        self._is_settled = True
        self._endpoint.uptime.used_s = self._now
        self._gateway.observer.ended(self._owner.request.timed, self._attempt.load, self._now)

    # -- events from the endpoint

    def first_token(self) -> None:
        """The only token of a prefill."""

    def finished(self, finished: FinishedRequest) -> None:
        self._settle()
        self._attempt.heard(self._now)
        prefill_way.prefill_head(self._owner.life, 200, None, self._now)
        prefill_way.prefilled(self._owner.life, _HANDED_OVER, self._now)
        self._owner.perform()

    def refused(self) -> None:
        self.responded(_WRONG, None)

    def responded(self, status: int, rest_s: float | None) -> None:
        self._settle()
        life = self._owner.life
        prefill_way.prefill_head(life, status, rest_s, self._now)
        if life.pairing is not None and life.pairing.running is self._attempt:
            prefill_way.prefill_refused(life, status, [], b"", self._now)
        self._owner.perform()

    def broken(self, cut_off: FinishedRequest | None) -> None:
        self._settle()
        prefill_way.prefill_failed(self._owner.life, "reset", "the engine is gone", self._now)
        self._owner.perform()

    def is_late(self, silent_s: float) -> bool:
        pool, hang_s = self._owner.life.pool, self._attempt.load.policy.hang_s
        return pool is not None and silent_s > pool.evidence.long_prefill_s(hang_s, self._now)

    def leave(self) -> None:
        """The endpoint does not respond."""
        prefill_way.leave_stopped(self._owner.life, self._now)
        self._owner.perform()

    # -- the transfer

    def hand_over(self, target: SimulatedEndpoint, fetched: Callable[[int], None]) -> None:
        """Transfer the cache to an endpoint; calls `fetched` with the number of tokens that arrived there."""
        self._fetched = fetched
        timed = self._owner.request.timed
        there = target.cached_tokens(self._owner.request.asked(self._owner.request_id, target.config))
        size = (timed.prompt_tokens - there) * self._endpoint.config.kv_bytes_per_token
        self._endpoint.watch(self)
        self._transfer = self._gateway.link.begin(size, self._handed_over)

    def _handed_over(self) -> None:
        self._end_transfer()
        if self._fetched is not None:
            self._fetched(self._request.prompt_tokens)

    def gone(self) -> None:
        """The endpoint died during the transfer."""
        self._end_transfer()
        if self._fetched is not None:
            self._fetched(0)

    def _end_transfer(self) -> None:
        if self._transfer is not None:
            self._gateway.link.give_up(self._transfer)
        self._endpoint.unwatch(self)
        self._endpoint.release_kv(self._request.request_id)
