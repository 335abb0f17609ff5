"""One stream of external processing, which is one request: messages of the proxy in, replies out.

Reports events to the request's `Life` and performs the effects that it requests. All decisions are made
there. It has no socket: a `Call` sends its replies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from headgate import extproc
from headgate.dataplane import retry_after
from headgate.engines import vllm_grpc
from headgate.picker import errors, hints, picking, replies, request_body
from headgate.picker.answer import Answer
from headgate.picker.request import ProxiedRequest
from headgate.protobuf_wire import WireError
from headgate.requests import effects, elsewhere, sessions, settlement, states, undecoded, way
from headgate.requests.decision import Decision
from headgate.requests.life import UNDECIDED, Life
from headgate.requests.proxied import Proxied
from headgate.requests.received import ReceivedBody
from headgate.requests.received_messages import ReceivedMessages
from headgate.requests.refusal import Refusal
from headgate.requests.sessions import SessionBody

if TYPE_CHECKING:
    import asyncio

    from headgate.dataplane.large_reader import Reading
    from headgate.dataplane.records.served_request import ServedRequest
    from headgate.fleet import EndpointState
    from headgate.picker.host import Call, Host
    from headgate.picker.reference_metrics import Ended
    from headgate.requests.bodies import large
    from headgate.requests.destinations import Destination
    from headgate.requests.pool_state import PoolState
    from headgate.requests.subset import Subset

INVALID_ARGUMENT, FAILED_PRECONDITION, ABORTED, UNAVAILABLE = 3, 9, 10, 14
"""Status codes of gRPC."""


class Stream:
    """`life` is None until the body is complete, and for requests that need no decision."""

    __slots__ = (
        "_answer",
        "_body",
        "_call",
        "_host",
        "_named",
        "_prefiller",
        "_response_mode",
        "_subset",
        "_timer",
        "life",
        "received",
        "request",
        "request_id",
    )

    def __init__(self, host: Host, call: Call) -> None:
        self._host = host
        self._call: Call | None = call
        """None once the stream has ended."""
        self.request: ProxiedRequest | None = None
        self.request_id = b""
        self.life: Life | None = None
        self.received: ReceivedBody | ReceivedMessages | None = None
        self._body: request_body.RequestBody | None = None
        self._subset: Subset | None = None
        self._response_mode = extproc.NONE
        self._named: list[EndpointState] = []
        """The endpoints that the proxy was told, in their order."""
        self._prefiller = b""
        """The address of the endpoint that prefills the prompt, if another one does."""
        self._answer: Answer | None = None
        self._timer: asyncio.TimerHandle | Reading | None = None

    # -- what the call reports

    def message(self, data: bytes) -> None:
        """A message of the proxy."""
        if self._call is None:
            return
        now = self._host.now()
        try:
            found = extproc.decode_request(data)
            self._take(found, now)
        except WireError as error:
            self._end_call(now, INVALID_ARGUMENT, f"this is not a ProcessingRequest: {error}")

    def half_closed(self) -> None:
        """The proxy sends no more."""
        life, now = self.life, self._host.now()
        is_read = self._response_mode == extproc.NONE
        if life is not None and is_read and life.state == states.ANSWERING:
            self._report(lambda: way.finished(life, now), now)
        self._end_call(now)

    def cancelled(self) -> None:
        """The proxy has ended the stream, or lost the connection."""
        self._call = None
        self._end_call(self._host.now())

    def _end_call(self, now: float, status: int = 0, message: str = "") -> None:
        """End the stream. A request that is not over has lost its client."""
        call, self._call = self._call, None
        if call is not None:
            call.finish(status, message)
        life = self.life
        if life is not None and not life.is_over:
            self._report(lambda: way.client_gone(life, now), now)
        elif self.request is not None and self.request.held_bytes:
            self._host.bodies.release(self.request)

    # -- messages

    def _take(self, found: extproc.ProcessingRequest, now: float) -> None:
        message = found.message
        if self.request is None:
            if found.is_response or not isinstance(message, extproc.HttpHeaders):
                raise WireError("the first message of a stream must have the headers of the request")
            self._request_headers(found, message, now)
        elif found.is_response:
            self._take_response(found, now)
        elif isinstance(message, extproc.HttpBody):
            self._request_body(message, now)
        elif isinstance(message, extproc.HttpTrailers):
            self._request_trailers(now)
        else:
            raise WireError("the headers of the request came twice")

    def _request_headers(
        self, found: extproc.ProcessingRequest, message: extproc.HttpHeaders, now: float
    ) -> None:
        host = self._host
        request = self.request = ProxiedRequest(message.headers, now, hints.source(found.attributes))
        self.request_id = request.given_id or host.request_id()
        mode, self._response_mode = picking.body_modes(found.protocol, host.choices.body_mode)
        problem = request_body.mode_problem(mode)
        if not host.plane.is_ready:  # so that a proxy with failureMode FailOpen goes on without it
            self._end_call(now, UNAVAILABLE, "the picker has not loaded its objects yet")
            return
        if problem or found.observability_mode:
            told = problem or "with observability_mode, the proxy would ignore the picked endpoint"
            self._end_call(now, FAILED_PRECONDITION, told)
            return
        choices = host.choices
        if choices.uses_subset:
            self._subset = hints.subset(found.metadata)
        if choices.is_conformance and (chosen := hints.conformance_subset(request)) is not None:
            self._subset = chosen
        self._body = request_body.RequestBody(mode)
        if request.is_session and not isinstance(sessions.model_of(request.query), Refusal):
            self._begin_session(request, now)
        elif message.end_of_stream:
            self._pick_without_body(now)
        elif mode == extproc.NONE:
            self._body.is_complete = True
            self._begin(now)
        elif mode == extproc.BUFFERED:
            self._send(replies.headers_before_body())

    def _request_body(self, message: extproc.HttpBody, now: float) -> None:
        body, request = self._body, self.request
        assert request is not None
        if body is not None and isinstance(self.received, SessionBody):
            self._session_data(body, message, now)
            return
        if body is None or body.is_complete:
            return  # some proxies send the last part twice
        host = self._host
        refusal = body.add(message.body, request, host.bodies, host.choices.max_body_bytes)
        if refusal is not None:
            self._refuse_early(refusal, now)
        elif message.end_of_stream or body.is_buffered:
            body.is_complete = True
            self._begin(now)

    def _request_trailers(self, now: float) -> None:
        """Trailers end the body, if it was not complete."""
        body = self._body
        if body is not None and not body.is_complete:
            body.is_complete = body.has_trailers = True
            self._begin(now)
        else:
            self._send(replies.trailers(is_response=False))

    # -- the decision

    def _pick_without_body(self, now: float) -> None:
        """Any endpoint may serve a request without a body, such as one for the list of models."""
        host, request = self._host, self.request
        assert request is not None
        destination = host.default_destination
        picked = picking.any_of(host.plane, destination, self._subset, now, host.rng)
        if picked is None:
            is_confined = self._subset is not None and destination is not None and destination.pool.loads
            self._refuse_early(errors.no_endpoint_in_subset() if is_confined else errors.no_pods(), now)
            return
        self._named = [picked]
        addresses = picked.endpoint.address.encode()
        mutation = picking.mutation(request, addresses, self.request_id, length=None)
        self._send(replies.picked_without_body(mutation, replies.destination_metadata(addresses)))

    def _begin_session(self, request: ProxiedRequest, now: float) -> None:
        """A WebSocket has no body: what the client sends in it stays as it is."""
        plane = self._host.plane
        received = self.received = SessionBody(request.path)
        life = self.life = Life(plane, request, received)
        proxied = life.proxied = Proxied(
            subset=self._subset, asks_for_usage=False, model=request.model_header
        )
        self._host.streams.add(self)
        life.decision = sessions.decide(plane, request, request.query, proxied)
        self._report(lambda: way.decided(life, now), now)

    def _session_data(self, body: request_body.RequestBody, message: extproc.HttpBody, now: float) -> None:
        """The client has sent something in its session; before an endpoint is picked, it waits."""
        if body.mode != extproc.FULL_DUPLEX_STREAMED:
            return
        if self._named:
            for part in replies.streamed(message.body, is_response=False, is_end=message.end_of_stream):
                self._send(part)
            return
        host, request = self._host, self.request
        assert request is not None
        body.is_complete = message.end_of_stream
        refusal = body.add(message.body, request, host.bodies, host.choices.max_body_bytes)
        if refusal is not None:
            self._end_call(now, ABORTED, refusal.message)

    def _begin(self, now: float) -> None:
        """The body is complete."""
        host, request, body = self._host, self.request, self._body
        assert request is not None
        assert body is not None
        request.body = body.whole()
        received = self.received = received_of(request)
        life = self.life = Life(host.plane, request, received)
        life.proxied = Proxied(
            subset=self._subset,
            asks_for_usage=host.choices.asks_for_usage and self._response_mode != extproc.NONE,
            model=request.model_header,
        )
        host.streams.add(self)
        reads_body = request.is_known_api and body.mode != extproc.NONE and not host.choices.passes_bodies
        if not reads_body:
            destination = host.default_destination
            life.decision = self._undecoded(request, destination)
            self._report(lambda: way.decided(life, now), now)
        else:
            self._report(lambda: way.begin(life, now), now)

    def _undecoded(self, request: ProxiedRequest, destination: Destination | None) -> Decision:
        """The decision about a body that is not read."""
        if destination is None:
            decision = Decision()
            decision.refusal = errors.no_pool()
            return decision
        prompt = vllm_grpc.read_request(request.path, bytes(request.body)) if request.is_grpc else None
        return undecoded.decide(self._host.plane, request, destination, prompt=prompt)

    # -- effects

    def _report(self, event: Callable[[], None], now: float) -> None:
        """Report an event, and perform what follows. An exception ends the request, and nothing else."""
        try:
            event()
        except Exception:
            self._broke(now)
        self._perform(now)

    def _broke(self, now: float) -> None:
        """Refuse the request because of the exception being handled; re-raise it if the request is over."""
        life = self.life
        assert life is not None
        if life.is_over:
            raise
        self._stop_timer(effects.STOP_TIMER, now)
        way.broke(life, now)

    def _perform(self, now: float) -> None:
        life = self.life
        assert life is not None
        todo = life.todo
        try:
            while todo:
                effect = todo.pop(0)
                _DO[type(effect)](self, effect, now)
        except Exception:
            self._broke(now)
            self._perform(now)

    def _read_body(self, effect: effects.ReadBody, now: float) -> None:
        request = self.request
        assert request is not None
        read = self._host.large_bodies.begin
        self._timer = read(request.headers, request.body, request.path, self._body_read)

    def _body_read(self, body: large.Body | None) -> None:
        self._timer = None
        life, now = self.life, self._host.now()
        assert life is not None
        self._report(lambda: way.body_read(life, body, now), now)

    def _fetch_tokens(self, effect: effects.FetchTokens, now: float) -> None:
        """Limits of routes that Redis counts are the gateway's."""
        assert self.life is not None
        way.tokens_out(self.life, now)

    def _hold(self, effect: effects.Hold, now: float) -> None:
        pool = self.life.pool if self.life is not None else None
        assert pool is not None
        assert pool.queue is not None
        pool.queue.hold(self, now)

    def admitted(self, pool: PoolState, now: float) -> None:
        """The request may leave the queue."""
        assert self.life is not None
        way.admitted(self.life, pool, now)
        self._perform(now)

    def turn_away(self, refusal: Refusal, now: float) -> None:
        """The request was dropped from the queue, or evicted."""
        assert self.life is not None
        way.turned_away(self.life, refusal, now)
        self._perform(now)

    def _start_timer(self, effect: effects.StartTimer, now: float) -> None:
        self._stop_timer(effects.STOP_TIMER, now)
        self._timer = self._host.loop.call_later(effect.seconds, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        life, now = self.life, self._host.now()
        assert life is not None
        self._report(lambda: way.timer(life, now), now)

    def _stop_timer(self, effect: effects.Effect, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _prefill(self, effect: effects.Prefill, now: float) -> None:
        """A sidecar of the decoding endpoint asks for the prefill: it is told where."""
        assert self.life is not None
        self._prefiller = effect.attempt.load.endpoint.address.encode()
        elsewhere.left_to_sidecar(self.life, now)

    def _leave_prefill(self, effect: effects.LeavePrefill, now: float) -> None:
        """The response is complete, and so the prefill is."""
        pairing = self.life.pairing if self.life is not None else None
        if pairing is not None and pairing.running is not None:
            pairing.running.end(now)

    def _ask(self, effect: effects.Ask, now: float) -> None:
        """Tell the proxy where the request goes, and with which body."""
        host, life, request, body = self._host, self.life, self.request, self._body
        assert life is not None
        assert request is not None
        assert body is not None
        loads = self._named = [effect.load]
        if host.choices.fallbacks:
            loads += picking.fallbacks(life, effect.load, host.choices.fallbacks, now)
        addresses = ",".join(load.endpoint.address for load in loads).encode()
        content = effect.body
        if self._prefiller and life.pairing is not None:
            content = life.pairing.leave_to_sidecar()
        is_session = isinstance(self.received, SessionBody)
        length = None if body.mode == extproc.NONE or is_session else len(content)
        if (tracer := host.recorder.tracer) is not None:
            picking.name_parent(tracer, request, life.account.attempts)
        mutation = picking.mutation(request, addresses, self.request_id, length=length)
        if is_session:
            content = body.whole()
            mutation.set_headers += picking.session_headers(request, life.decision)
        if self._prefiller:
            mutation.set_headers.append(extproc.SetHeader(picking.PREFILLER, self._prefiller))
        metadata = replies.destination_metadata(addresses)
        if host.choices.emits_scores:
            metadata = picking.metadata_with_scores(life, addresses)
        if body.is_buffered and not is_session:
            self._send(replies.picked_buffered(mutation, metadata, content))
        else:
            self._send(replies.picked_without_body(mutation, metadata))
            if body.mode != extproc.NONE:
                is_end = body.is_complete if is_session else not body.has_trailers
                for part in replies.streamed(content, is_response=False, is_end=is_end):
                    self._send(part)
        if body.has_trailers:
            self._send(replies.trailers(is_response=False))
        host.reference.picked(cast("Ended", self))
        way.sent(life, now)
        settlement.drop_body(life)  # the proxy has it, and retries by itself
        if life.pairing is not None:
            life.pairing.forget()
        host.bodies.release(request)

    # -- the response

    def _take_response(self, found: extproc.ProcessingRequest, now: float) -> None:
        if not self._named:
            raise WireError("a part of the response came before the request was complete")
        message = found.message
        if isinstance(message, extproc.HttpHeaders):
            self._response_headers(found, message, now)
        elif self._answer is None:
            raise WireError("the body of the response came before its headers")
        elif isinstance(message, extproc.HttpBody):
            self._response_body(self._answer, message, now)
        else:
            self._response_trailers(self._answer, now)

    def _response_headers(
        self, found: extproc.ProcessingRequest, message: extproc.HttpHeaders, now: float
    ) -> None:
        if self._answer is not None:
            raise WireError("the headers of the response came twice")
        life = self.life
        decision = life.decision if life is not None else UNDECIDED
        answer = self._answer = Answer(message.headers, self._response_mode, decision)
        answer.added += picking.conformance_headers(found, self._host.choices)
        if life is None:
            self._send(answer.head())
        else:
            self._note_served(life, found, now)
            rest_s = None
            if answer.status in retry_after.STATUSES:
                rest_s = retry_after.seconds(message.headers)
            self._report(lambda: way.head(life, answer.status, rest_s, now), now)
        if message.end_of_stream:
            self._response_ended(now)

    def _note_served(self, life: Life, found: extproc.ProcessingRequest, now: float) -> None:
        """Account for the request where the proxy has sent it."""
        address = hints.served(found.metadata, found.attributes)
        pool = life.pool
        if address and pool is not None and address != self._named[0].endpoint.address:
            load = hints.endpoint_at(address, pool.loads)
            if load is not None:
                elsewhere.served_by(life, load, now, has_failed=load in self._named)

    def _respond(self, effect: effects.Respond, now: float) -> None:
        """Reply to the headers of the response."""
        answer, life, request = self._answer, self.life, self.request
        assert answer is not None
        assert life is not None
        assert request is not None
        answer.added += picking.response_headers(
            cast("ServedRequest", self),
            effect.retry_after_s,
            explains=request.wants_decision(self._host.choices.explains_to),
        )
        self._send(answer.head())

    def _response_body(self, answer: Answer, message: extproc.HttpBody, now: float) -> None:
        data, life, received = message.body, self.life, self.received
        if life is not None and received is not None and data:
            way.heard(life, now)
            if not life.account.first_byte_at and isinstance(received, SessionBody):
                life.account.first_byte_at = now  # it says nothing about the time of a first token
            elif not life.account.first_byte_at:
                way.first_byte(life, now)
                elsewhere.sidecar_responded(life, now)
            received.add(data)
            received.has_passed = True
        # A buffered body is whole in one message, which trailers may follow.
        is_end = message.end_of_stream or answer.mode == extproc.BUFFERED
        for part in answer.part(data, is_end=is_end):
            self._send(part)
        if received is not None:
            received.taken_bytes = answer.body.taken_bytes
        if is_end:
            self._response_ended(now)

    def _response_trailers(self, answer: Answer, now: float) -> None:
        for part in answer.part(b"", is_end=True, has_trailers=True):
            self._send(part)
        self._send(replies.trailers(is_response=True))
        self._response_ended(now)

    def _response_ended(self, now: float) -> None:
        """The proxy has the whole response, or is about to."""
        life = self.life
        if life is not None and not life.is_over:
            self._report(lambda: way.finished(life, now), now)
        self._end_call(now)

    # -- ends

    def _finish(self, effect: effects.Effect, now: float) -> None:
        self._end(now)

    def _refuse(self, effect: effects.Refuse, now: float) -> None:
        life, request = self.life, self.request
        assert life is not None
        assert request is not None
        if self._answer is not None:  # its head has reached the client
            self._end(now)
            self._end_call(now, ABORTED, effect.refusal.message)
            return
        response = self._immediate(effect.refusal)
        life.account.refusal_bytes = len(response.body)
        self._end(now)
        if response.mutation is not None:
            served, added = cast("ServedRequest", self), response.mutation.set_headers
            if request.wants_decision(self._host.choices.explains_to):
                added += picking.decision_headers(served, effect.refusal.code)
            added += picking.trace_headers(served)
        self._send(replies.immediate(response))
        self._end_call(now)

    def _refuse_early(self, refusal: Refusal, now: float) -> None:
        """Refuse a request about which nothing was decided."""
        self._host.recorder.refused_here(refusal)
        self._send(replies.immediate(self._immediate(refusal)))
        self._end_call(now)

    def _immediate(self, refusal: Refusal) -> extproc.ImmediateResponse:
        request, life = self.request, self.life
        assert request is not None
        is_sheddable = life is not None and life.decision.scheduled.priority < 0
        is_text = self._host.choices.error_format == "text"
        return errors.response(refusal, request.target, is_text=is_text, is_sheddable=is_sheddable)

    def _cut_off(self, effect: effects.CutOff, now: float) -> None:
        self._end(now)
        self._end_call(now, ABORTED, effect.refusal.message)

    def _pass_whole(self, effect: effects.PassWhole, now: float) -> None:
        headers = [extproc.SetHeader(*each) for each in effect.headers if each[0] == b"content-type"]
        self._end(now)
        self._send(
            replies.immediate(
                extproc.ImmediateResponse(effect.status, extproc.Mutation(headers), effect.body)
            )
        )
        self._end_call(now)

    def _end(self, now: float) -> None:
        """Release all resources and record the request."""
        self._stop_timer(effects.STOP_TIMER, now)
        request = self.request
        assert request is not None
        self._host.streams.discard(self)
        self._host.bodies.release(request)
        self._host.recorder.settled(cast("ServedRequest", self), now)
        self._host.reference.settled(cast("Ended", self), now)

    def sweep(self, now: float) -> None:
        """Called about once a second."""
        life = self.life
        if life is not None and not life.is_over:
            self._report(lambda: way.sweep(life, now), now)

    def _send(self, message: bytes) -> None:
        if self._call is not None:
            self._call.send(message)

    def _skip(self, effect: effects.Effect, now: float) -> None:
        """The proxy has the connections to endpoints, and prefills are asked for by sidecars."""


def received_of(request: ProxiedRequest) -> ReceivedBody | ReceivedMessages:
    """What takes in the response."""
    return ReceivedMessages() if request.is_grpc else ReceivedBody(request.path)


_DO: Final[dict[type[effects.Effect], Callable[[Stream, Any, float], None]]] = {
    effects.ReadBody: Stream._read_body,
    effects.FetchTokens: Stream._fetch_tokens,
    effects.Hold: Stream._hold,
    effects.Ask: Stream._ask,
    effects.StartTimer: Stream._start_timer,
    effects.StopTimer: Stream._stop_timer,
    effects.Drop: Stream._stop_timer,
    effects.Overtake: Stream._skip,
    effects.Prefill: Stream._prefill,
    effects.DropPrefill: Stream._skip,
    effects.LeavePrefill: Stream._leave_prefill,
    effects.Respond: Stream._respond,
    effects.TakeBack: Stream._skip,
    effects.Finish: Stream._finish,
    effects.Refuse: Stream._refuse,
    effects.CutOff: Stream._cut_off,
    effects.PassWhole: Stream._pass_whole,
    effects.HangUp: Stream._finish,
}
"""How each effect is performed in messages."""
