"""A delivery where prefill and decode may be apart: the prompt goes to one endpoint, the request to another.

States follow one another: a pair is chosen, the prompt prefilled, then the endpoint that answers is asked as
any other would be; some connectors have both at once, and the prefill is watched while the answer flows. A
failure of either leads to another pair, as long as nothing of an answer has reached the client.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headgate.fleet import ACCEPTED_AFTER_S, blame
from headgate.gateway.attempts import Attempts
from headgate.gateway.handover import DISAGGREGATED, NOT_HANDED_OVER, Handover
from headgate.requests.decision import no_endpoint
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.fleet import EndpointState
    from headgate.requests.client import Header
    from headgate.requests.pool_state import PoolState
    from headgate.scheduling import Choice


log = logging.getLogger(__name__)

_NOT_FOUND = 404


class PairedDelivery(Attempts):
    """`handover` is None for requests to pools whose endpoints serve them whole."""

    __slots__ = ()

    @abstractmethod
    def _take_back_answer(self) -> bool:
        """Forgets an answer of which nothing has reached the client; says whether that is so."""

    @abstractmethod
    def _cut_off(self, outcome: str, message: str) -> None:
        """Ends the request, and an answer of which the client has a part."""

    @abstractmethod
    def _pass_on(self, status: int, headers: list[Header], body: bytes) -> None:
        """Gives the client an answer that is here as a whole."""

    # -- one attempt

    def _attempt_apart(self, pool: PoolState, now: float) -> None:
        handover = self.handover
        if handover is None:
            handover = self.handover = Handover(self._proxy, self.request, self.request_id, self.decision)
            self._long_body = b""
            if not self._has_memory_for_two():
                self._refuse(self._proxy.bodies.refusal())
                return
        pair = handover.pick(pool, self._tried)
        if pair is None:
            self._refuse(self._no_pair(pool, handover))
            return
        before = handover.pair if handover.is_prefilled else None
        is_repeated = before is not None and pair.prefill is before.prefill
        if not is_repeated:
            handover.discard()
        handover.pair = pair
        handover.decision = pair.why or DISAGGREGATED
        self._proxy.recorder.paired(pool, handover.decision)
        choice = self.choice = pair.decode
        load = self.load = choice.load
        self._tried.append(load)
        self.attempts += 1
        self.attempt_at = now
        if self._proxy.kv_events.sources and not is_repeated:
            self._proxy.kv_events.sent(
                self.decision.scheduled, self.decision.body, pair.prefill or choice, now
            )
        if pair.prefill is None:
            self._book_all(pool)
            pool.policy.booked(pair.request, choice, now)
            self._payload, self._long_body = handover.payload()
            self._ask(pool, load, now)
            return
        scheduled = self.decision.scheduled
        self.booking = load.book(0, scheduled.output_tokens, now, False, scheduled.adapter)
        pool.decoding.booked(pair.request, choice, now)
        if not is_repeated:
            handover.begin(pool, pair, self, self._proxy.rng)
        if is_repeated or handover.at_once:
            self._payload, self._long_body = handover.payload()
            self._ask(pool, load, now)

    def _has_memory_for_two(self) -> bool:
        """Counts the bodies that both endpoints are sent, which differ, besides the client's own. Those of a
        large one are parts of that."""
        if self.decision.change is not None:
            return True
        size, bodies = len(self.decision.body), self._proxy.bodies
        bodies.recount(self.request, 3 * size)
        return not bodies.is_exceeded_by(size)

    def _no_pair(self, pool: PoolState, handover: Handover) -> Refusal:
        """Why nobody can be asked."""
        most = self._proxy.settings.endpoints.max_connections
        if handover.at_once and self._proxy.candidates(pool, self._tried):
            return Refusal.unavailable(
                f"{pool.pool.key} has no pair of endpoints that can serve the request: one that "
                "prefills and one that decodes have to be ready in the same group",
                code="no_ready_endpoint",
                dropped="rejected-no-endpoints",
            )
        return no_endpoint(pool, most, self._proxy.refused(pool, self.decision.scheduled, self._tried))

    def _book_all(self, pool: PoolState) -> None:
        """Books the whole request on the endpoint that answers."""
        assert self.choice is not None
        assert self.load is not None
        scheduled = self.decision.scheduled
        uncached_tokens = max(scheduled.prompt_tokens - self.choice.cached_tokens, 0)
        self.booking = self.load.book(
            uncached_tokens,
            scheduled.output_tokens,
            self.attempt_at,
            self.decision.stream,
            scheduled.adapter,
        )

    def _do_all_of_it(self, why: str) -> None:
        """The endpoint that answers gets the whole request, although the prompt was sent to another."""
        assert self.handover is not None
        assert self.pool is not None
        assert self.load is not None
        self.handover.decision = why
        self.handover.pair = None
        self._proxy.recorder.paired(self.pool, why)
        now = self._proxy.now()
        self._end_booking(now)
        self._book_all(self.pool)
        self._payload, self._long_body = self.handover.payload()
        self._ask(self.pool, self.load, now)

    # -- what the prefill reports

    def prefilled(self) -> None:
        """The endpoint that answers is asked, if it was not at once."""
        handover, load, pool = self.handover, self.load, self.pool
        assert handover is not None
        assert handover.prefill is not None
        assert pool is not None
        handover.prefill.load.served = self._asked()
        if self.suspects is not None:
            self._blame(self.suspects.prefilled())
        if handover.at_once:
            return
        assert load is not None
        now = self._proxy.now()
        latest = self._proxy.pools.get(pool.pool.key)
        if latest is not None and load not in (
            latest.pairs.decode if latest.pairs is not None else latest.loads
        ):
            # It was taken out of the pool meanwhile, and knows nothing of the request yet.
            self._leave_endpoint()
            self.attempts -= 1
            self.pool = latest
            self._attempt(now)
        elif handover.lacks_parameters:
            self._do_all_of_it(NOT_HANDED_OVER)
        else:
            self._payload, self._long_body = handover.payload()
            self._ask(pool, load, now)

    def prefill_refused(self, status: int, headers: list[Header], body: bytes) -> None:
        """The request is wrong, or what was made of it is, or the endpoint. The endpoint that answers has the
        last word; where it waits for the prefill, another pair has."""
        handover, pool = self.handover, self.pool
        assert handover is not None
        assert handover.prefill is not None
        assert pool is not None
        now, reason, refusing = self._proxy.now(), f"prefill_status_{status}", handover.prefill.load
        if not handover.at_once:
            if blame.is_suspect(status):
                self._proxy.recorder.attempt_failed(pool, reason)
            self._suspect_prefill(refusing, status, now)
            self._do_all_of_it(reason)
            return
        if not self._take_back_answer():
            return
        self._drop_upstream()
        is_shared = self.suspects is not None and self.suspects.have(status)
        if blame.is_suspect(status) and self._is_open(pool, status, now, is_shared=is_shared):
            self._leave_prefill(reason)
            self._leave_endpoint()
            if self._may_retry(pool, blame.RESERVED):
                self._proxy.recorder.attempt_failed(pool, reason)
                self._suspect_prefill(refusing, status, now)
                self._retry()
                return
        if self.suspects is not None:
            self._blame(self.suspects.compare(status))
        self._pass_on(status, headers, body)

    def _suspect_prefill(self, load: EndpointState, status: int, now: float) -> None:
        """What the request comes to elsewhere tells whether the rejection was the endpoint's own fault."""
        adapter = self.decision.scheduled.adapter
        if status == _NOT_FOUND and adapter:
            load.lacks(adapter, now)
            self._proxy.scraper.list_models_soon(load)
        elif blame.is_suspect(status):
            back_at = load.resting_until if load.resting_until > now else None
            self._suspect(load, status, now, back_at, is_prefill=True)

    def prefill_impossible(self, message: str) -> None:
        if self._take_back_answer():
            self._refuse(Refusal.unavailable(message, code="gateway_exhausted"))
        else:
            self._drop_upstream()
            self._cut_off("gateway_exhausted", message)

    def prefill_failed(self, reason: str, message: str) -> None:
        """Another endpoint prefills it, or the one that answers does it all, while the pool allows it."""
        handover, pool = self.handover, self.pool
        assert handover is not None
        assert handover.prefill is not None
        assert pool is not None
        failed, status, now = handover.prefill.load, handover.prefill.status, self._proxy.now()
        if blame.is_suspect(status):
            self._proxy.recorder.attempt_failed(pool, f"prefill_{reason}")
            self._suspect_prefill(failed, status, now)
        else:
            self._proxy.health.attempt_failed(pool, failed, f"prefill_{reason}", now)
        self._leave_prefill(f"prefill_{reason}")
        if not self._take_back_answer():
            self._drop_upstream()
            self._cut_off("prefill_failed", message)
            return
        self._drop_upstream()
        # The endpoint that answers is not to blame, unless the other waited for it in vain.
        if handover.at_once and reason == "timeout":
            self._end_booking(now)
            self.load = None
        else:
            self._leave_endpoint()
        if self._may_retry(pool):
            self._retry()
        else:
            self._give_up(reason, message)

    def prefill_stopped(self) -> None:
        """Another pair is asked, while the pool allows it and nothing has reached the client. Else the
        request goes on waiting."""
        handover, pool, load = self.handover, self.pool, self.load
        assert handover is not None
        assert handover.prefill is not None
        assert pool is not None
        assert load is not None
        stopped = handover.prefill.load
        may_retry = self._may_leave(handover, stopped, load, pool) and self._take_back_answer()
        self._proxy.health.hangs(pool, stopped, self._proxy.now())
        if may_retry:
            self._proxy.recorder.attempt_failed(pool, "prefill_hang")
            self._leave_prefill("prefill_hang")
            self._drop_upstream()
            self._leave_endpoint()
            self._retry()

    def _may_leave(
        self, handover: Handover, prefill: EndpointState, decode: EndpointState, pool: PoolState
    ) -> bool:
        """Whether another pair may be asked without the endpoint that prefills."""
        handover.tried.append(prefill)
        self._tried.remove(decode)
        try:
            return self._may_retry(pool)
        finally:
            handover.tried.remove(prefill)
            self._tried.append(decode)

    def _waits_for_prefill(self) -> bool:
        """Whether the endpoint that answers was asked before the prompt was prefilled: the head of its answer
        tells nothing yet."""
        return self.handover is not None and self.handover.at_once and self.handover.is_prefilling

    def _sweep_prefill(self, handover: Handover, now: float) -> None:
        """Judges the endpoint that prefills by how long nothing has come; called about once a second."""
        prefill = handover.running
        if prefill is None:
            return
        if self.suspects is not None and prefill.silent_s(now) > ACCEPTED_AFTER_S:
            self._blame(self.suspects.prefilled())
        prefill.sweep(now)

    def _leave_prefill(self, reason: str) -> None:
        """Another endpoint has to prefill it, if any."""
        handover = self.handover
        assert handover is not None
        assert handover.prefill is not None
        handover.tried.append(handover.prefill.load)
        self._note_tried(handover.prefill.load, reason, handover.prefill.began_at)
        handover.discard()

    def _leave_endpoint(self) -> None:
        """The endpoint that was to answer counts as not tried."""
        assert self.load is not None
        self._end_booking(self._proxy.now())
        self._tried.remove(self.load)
        self.load = None

    # -- after a failure of the endpoint that answers

    def _end_attempt(self, reason: str) -> None:
        super()._end_attempt(reason)
        self._give_up_prefill()

    def _give_up_prefill(self) -> None:
        """Keeps of it only what another endpoint can fetch."""
        handover = self.handover
        if handover is not None:
            handover.drop()
            if not handover.is_prefilled:
                handover.discard()

    def _begins_again(self, reason: str) -> bool:
        """Tries another pair after an answer that broke off before anything of it was passed on."""
        assert self.pool is not None
        assert self.load is not None
        if not self._may_retry(self.pool):
            return False
        self._note_tried(self.load, reason, self.attempt_at)
        self.load = None
        self._drop_upstream()
        self._end_booking(self._proxy.now())
        self._give_up_prefill()
        self._retry()
        return True

    def _marks(self, pool: PoolState, choice: Choice) -> Iterator[tuple[bytes, bytes]]:
        """Headers that the policy gives the answer, of each phase."""
        pair = self.handover.pair if self.handover is not None else None
        if pair is None:
            yield from pool.policy.marks(self.decision.scheduled, choice)
            return
        yield from (pool.policy if pair.prefill is None else pool.decoding).marks(pair.request, choice)
        if pair.prefill is not None and pair.prefill_request is not None:
            yield from pool.policy.marks(pair.prefill_request, pair.prefill)

    def _is_another(self, pool: PoolState) -> bool:
        if self.handover is not None:
            try:
                return self.handover.pick(pool, self._tried) is not None
            except Exception:
                log.exception("no pair could be picked in %s", pool.pool.key)
                return False
        return super()._is_another(pool)

    def _drop_upstream(self) -> None:
        super()._drop_upstream()
        if self.handover is not None:
            self.handover.drop()
