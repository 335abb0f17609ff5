"""A gateway whose clients, endpoints, time and objects are what a story says.

The connections are the gateway's own protocols on transports that only record calls, and the clock is moved
by hand, so that a sequence of minutes takes milliseconds and can be shrunk.
"""

import asyncio
import itertools
import json
import random
from typing import cast
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import faults
from headgate import api, routing
from headgate.dataplane.records.recorder import Recorder
from headgate.dataplane.tracing import Tracer
from headgate.gateway import GatewaySettings, connections, exchange, listener
from headgate.gateway.shell import Shell
from headgate.gateway.upstream import UpstreamConnection
from headgate.telemetry import Registry
from headgate.telemetry.tracing import SERVER, Export

ANSWERS = (
    faults.plain(b'{"text":"deep","usage":{"prompt_tokens":3,"completion_tokens":5}}'),
    faults.plain(b'{"kv_transfer_params":{"remote_port":1},"usage":{"prompt_tokens":3}}'),
    faults.chunked([b'{"text":', b'"deep"}']),
    faults.events(["un", "deux"]),
    faults.unframed(b'{"text":"deep"}'),
    faults.Answer(b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\n", b"busy", b"busy"),
    faults.Answer(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", b"", b""),
)


STARTS = st.sampled_from((None, routing.Start(20.0), routing.Start(20.0), routing.Start(20.0, "no GPU")))
LONG, MAX_BODIES = 100_000, 300_000
"""A few long bodies are too many, and one that two endpoints are sent may be."""


class Loop(asyncio.SelectorEventLoop):
    """Its time is what the story says."""

    now = 1000.0

    def time(self) -> float:
        return self.now

    def settle(self) -> None:
        """Runs what is due, and what follows from it."""
        for _ in range(6):
            self.run_until_complete(asyncio.sleep(0))


class Socket:
    def setsockopt(self, *options: object) -> None:
        """Nothing here depends on options."""


class Transport(asyncio.Transport):
    """Notes what is written, and ends as a real one does: a moment after it was told to."""

    def __init__(self, loop: Loop, protocol: asyncio.Protocol) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "socket": Socket()})
        self._loop = loop
        self.protocol = protocol
        self.written = b""
        self.is_over = False
        self.is_paused = False
        self.is_unread = False
        """Whether the peer reads nothing, so that what is written waits."""
        protocol.connection_made(self)

    def write(self, data: bytes) -> None:
        assert not self.is_over, "written after the end"
        self.written += data

    def lose(self, error: Exception | None = None) -> None:
        if not self.is_over:
            self.is_over = True
            self._loop.call_soon(self.protocol.connection_lost, error)

    abort = close = lose

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = cast(asyncio.Protocol, protocol)

    def is_closing(self) -> bool:
        return self.is_over

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def write_eof(self) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return int(self.is_unread)


class Stories(RuleBasedStateMachine):
    """One gateway, three endpoints, and whoever comes; in some stories every second one only prefills."""

    @initialize(
        attempts=st.sampled_from((None, 0, 2)),
        timeout_s=st.sampled_from((None, 5.0)),
        connector=st.sampled_from((None, "http", "nixl", "sglang")),
        room=st.sampled_from((1, 2, None)),
        evicts=st.booleans(),
        start=STARTS,
    )
    def begin(self, attempts, timeout_s, connector, room, evicts, start):
        self.loop = Loop()
        self.connector = connector
        self.pool = {"attempts": attempts, "timeout_s": timeout_s, "retry_interval_s": 1.0, "start": start}
        self.places = range(3)
        self.exchanges: list[exchange.Exchange] = []
        self.clients: list[Transport] = []
        self.upstreams: list[Transport] = []
        self.connecting: list[asyncio.Future[bool]] = []
        self.to_send: dict[Transport, bytes] = {}
        story = self

        def noted(*arguments):
            story.exchanges.append(exchange.Exchange(*arguments))
            return story.exchanges[-1]

        async def connect(connections):
            answered = story.loop.create_future()
            story.connecting.append(answered)
            if not await answered:
                raise ConnectionRefusedError
            made = UpstreamConnection(connections)
            story.upstreams.append(Transport(story.loop, made))
            connections._open.add(made)
            return made

        self.patches = [
            mock.patch.object(listener, "Exchange", noted),
            mock.patch.object(connections.EndpointConnections, "connect", connect),
        ]
        for patch in self.patches:
            patch.start()
        detector = "predicted-work" if room is None else "concurrency-detector"
        chosen = GatewaySettings().replace(
            queue_detector=detector,
            queue_max_in_flight=room or 1,
            queue_enabled=True,
            queue_objectives_from="anyone",
            queue_ttl_s=50.0,
            queue_no_endpoint_wait_s=30.0,
            queue_max_requests=4,
            queue_start_max_requests=3,
            queue_start_wait_s=110.0,
            queue_evict_running=evicts,
            clients_max_body_bytes=LONG,
            clients_max_bodies_bytes=MAX_BODIES,
        )
        recorder = Recorder(Registry(), None)
        self.traces, self.checked = [], 0
        recorder.tracer = Tracer(
            chosen.tracing,
            Export(endpoint="", shown="", ratio=1.0, follows_parents=True),
            random.Random(1),
            self.traces.append,
            lambda: 1e9 + self.loop.now,
            kind=SERVER,
        )
        self.shell = Shell(chosen, recorder, self.loop, random.Random(1))
        self._serve(self.places)

    def _serve(self, places):
        self.places = places
        self.shell.use(self._snapshot(places))
        self.shell.plane.is_ready = True

    def _snapshot(self, places):
        key = api.ObjectRef("ModelServer", "default", "pool")
        made = tuple(routing.Endpoint(f"default/pod-{place}", "127.0.0.1", 1 + place) for place in places)
        route = routing.Route(
            key=api.ObjectRef("ModelRoute", "default", "route"),
            name="default/route",
            model="m",
            adapters=(),
            rules=(routing.Rule("rule", None, (routing.Target(key, 100),)),),
            created="2026-01-01T00:00:00Z",
        )
        phases = None
        if self.connector is not None:
            roles = {
                endpoint: routing.Role(prefills=place % 2 == 0, decodes=place % 2 == 1, group="g")
                for place, endpoint in zip(places, made, strict=True)
            }
            phases = routing.PrefillDecode(connector=self.connector, roles=roles, remote_tokens=0)
        objectives = {str(priority): priority for priority in (-1, 0, 1)}
        pool = routing.Pool(key=key, endpoints=made, phases=phases, objectives=objectives, **self.pool)
        return routing.Snapshot(models={"m": (route,)}, pools={key: pool})

    def _ask(
        self,
        client: Transport,
        model: str,
        stream: bool,
        close: bool,
        priority: int = 0,
        size: int = 0,
        left_out: int = 0,
    ):
        """Sends a request with a prompt of this size, without its last bytes."""
        body = json.dumps({"model": model, "stream": stream, "prompt": "x" * size}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nhost: g\r\ncontent-length: {len(body)}\r\n"
        head += f"x-llm-d-inference-objective: {priority}\r\nx-headgate-progress: true\r\n"
        end = "connection: close\r\n\r\n" if close else "\r\n"
        client.protocol.data_received((head + end).encode() + body[: len(body) - left_out])

    # -- what happens

    @rule(
        model=st.sampled_from("mmmmx"),
        stream=st.booleans(),
        close=st.booleans(),
        priority=st.integers(-1, 1),
        size=st.sampled_from((0, 0, 10, LONG - 1000)),
        left_out=st.sampled_from((0, 0, 0, 9)),
    )
    def a_client_comes(self, model, stream, close, priority, size, left_out):
        self.clients.append(
            Transport(self.loop, listener.ClientConnection(self.shell.services, self.shell.clients))
        )
        self._ask(self.clients[-1], model, stream, close, priority, size, left_out)

    @precondition(lambda self: self._open_clients())
    @rule(data=st.data(), stream=st.booleans(), size=st.sampled_from((0, 0, LONG - 1000)))
    def a_client_asks_again(self, data, stream, size):
        self._ask(data.draw(st.sampled_from(self._open_clients())), "m", stream, False, size=size)

    @precondition(lambda self: self._open_clients())
    @rule(data=st.data(), how=st.sampled_from(("leaves", "ends", "stalls", "reads")))
    def a_client(self, data, how):
        client = data.draw(st.sampled_from(self._open_clients()))
        if how == "leaves":
            client.lose(ConnectionResetError())
        elif how == "ends":
            client.protocol.eof_received()
            client.lose()
        elif how == "stalls":
            client.protocol.pause_writing()
        else:
            client.protocol.resume_writing()

    @precondition(lambda self: self.connecting)
    @rule(is_made=st.sampled_from((True, True, True, False)))
    def a_connection_is_answered(self, is_made):
        future = self.connecting.pop(0)
        if not future.done():
            future.set_result(is_made)

    @precondition(lambda self: self._asked())
    @rule(data=st.data(), share=st.floats(0, 1), answer=st.sampled_from(ANSWERS))
    def an_endpoint_sends(self, data, share, answer):
        """A part of its answer, or all that is left."""
        transport = data.draw(st.sampled_from(self._asked()))
        left = self.to_send.pop(transport, None) or answer.wire
        size = max(1, int(len(left) * share)) if share < 0.9 else len(left)
        transport.written = b""
        if left[size:]:
            self.to_send[transport] = left[size:]
        transport.protocol.data_received(left[:size])

    @precondition(lambda self: self.connector is not None and self.exchanges)
    @rule(answer=st.sampled_from(ANSWERS[:3]))
    def prompts_are_prefilled(self, answer):
        """All that is under way to endpoints that prefill goes well."""
        while self.connecting:
            self.a_connection_is_answered(True)
            self.loop.settle()
        for transport in self._asked():
            if b'"max_tokens":1' in transport.written and transport not in self.to_send:
                transport.written = b""
                transport.protocol.data_received(answer.wire)

    @precondition(lambda self: self._asked())
    @rule(data=st.data(), how=st.sampled_from(("closes", "resets", "babbles")))
    def an_endpoint(self, data, how):
        transport = data.draw(st.sampled_from(self._asked()))
        if how == "babbles":
            transport.protocol.data_received(b"zz\r\n\r\nzz")
        else:
            transport.lose(ConnectionResetError() if how == "resets" else None)

    @precondition(lambda self: self._asked())
    @rule(data=st.data())
    def an_endpoint_stops_to_read_or_goes_on(self, data):
        transport = data.draw(st.sampled_from(self._asked()))
        transport.is_unread = not transport.is_unread
        if transport.is_unread:
            transport.protocol.pause_writing()
        else:
            transport.protocol.resume_writing()

    @rule(seconds=st.sampled_from((0.5, 1.5, 20.0, 100.0, 400.0)))
    def time_passes(self, seconds):
        self.loop.now += seconds

    @rule(settings=st.fixed_dictionaries({"queue_enabled": st.booleans(), "queue_ttl_s": st.just(5.0)}))
    def settings_change(self, settings):
        self.shell.change(self.shell.settings.replace(**settings))

    @rule()
    def a_second_is_over(self):
        for client in list(self.shell.clients.all):
            client.sweep(self.loop.now)

    @rule(places=st.sets(st.integers(0, 4), max_size=4))
    def objects_change(self, places):
        self._serve(sorted(places))

    @rule(start=STARTS)
    def a_pool_is_scaled_to_zero_or_not(self, start):
        """Or its start fails."""
        self.pool["start"] = start
        self._serve(self.places)

    # -- what holds

    def _open_clients(self):
        return [client for client in self.clients if not client.is_over]

    def _asked(self):
        """Connections to endpoints with a request, or amid an answer, that are read."""
        return [
            each
            for each in self.upstreams
            if not each.is_over and not each.is_paused and (each.written or each in self.to_send)
        ]

    @invariant()
    def the_books_are_in_order(self):
        self.loop.settle()
        self.shell.plane.ledger.validate()
        for each in self.exchanges:
            each.life.validate()
            assert not each.life.todo
        running = [each for each in self.exchanges if not each.life.is_over]
        answering = sum(each.life.load is not None for each in running)
        prefilling = sum(
            each.life.pairing is not None and each.life.pairing.running is not None for each in running
        )
        left = len(self.shell.services.background.left_behind)
        assert self.shell.plane.ledger.statistics()["requests"] == answering + prefilling + left
        counted = self.shell.recorder.requests.ended.metric().samples
        ended = sum(each.value for each in counted if each.name.endswith("_total"))
        assert ended == len(self.exchanges) - len(running)
        assert len(running) <= len(self._open_clients())
        waiting = [each for each in running if each.life.wait is not None and not each.life.wait.is_over]
        assert all(each.life.load is None and each.life.phase == "queued" for each in waiting)
        assert sum(queue.held for queue in self.shell.queues.all()) == len(waiting)
        for queue in self.shell.queues.all():
            queue._flow.validate()
            assert len(queue._flow) == queue.held
        ended = sum(child.value for _, child in self.shell.recorder.waits.requests.children())
        waits = [each.life.wait for each in self.exchanges if each.life.wait is not None]
        assert ended == sum(wait.holds - (not wait.is_over) for wait in waits)

    @invariant()
    def spans_nest_and_are_ordered(self):
        """Each request that is over has a trace, whatever happened to it."""
        self.loop.settle()
        assert len(self.traces) == sum(each.life.is_over for each in self.exchanges)
        for trace in self.traces[self.checked :]:
            by_id = {span.span_id: span for span in trace.spans}
            assert len(by_id) == len(trace.spans)
            for span in trace.spans:
                assert span.start_ns <= span.end_ns, span
                assert span.start_ns >= 1e18
            for span in trace.spans[1:]:
                parent = by_id[span.parent_id]
                assert parent.start_ns <= span.start_ns, (parent, span)
                assert span.end_ns <= parent.end_ns, (parent, span)
            attempts = [span for span in trace.spans if span.name == "attempt"]
            for earlier, later in itertools.pairwise(attempts):
                assert earlier.end_ns <= later.start_ns, trace
        self.checked = len(self.traces)

    @invariant()
    def bodies_are_counted_as_they_are_held(self):
        self.loop.settle()
        held = sum(each.request.held_bytes for each in self.exchanges if not each.life.is_over)
        for client in self.clients:
            if isinstance(client.protocol, listener.ClientConnection):  # and no WebSocket
                held += client.protocol._reader.body_bytes
                held += sum(request.held_bytes for request in client.protocol._ahead.requests)
        assert self.shell.services.bodies.held == held <= MAX_BODIES

    def teardown(self):
        try:
            self.loop.run_until_complete(self.shell.close())
            self.loop.settle()
            self.the_books_are_in_order()
            assert all(each.life.is_over for each in self.exchanges)
            assert self.shell.plane.ledger.statistics()["requests"] == 0
            assert self.shell.services.bodies.held == 0
            assert all(each.is_over for each in (*self.clients, *self.upstreams))
            assert not self.shell.services.background._tasks
            counted = self.shell.recorder.requests.ended.metric().samples
            assert sum(each.value for each in counted if each.name.endswith("_total")) == len(self.exchanges)
        finally:
            for patch in self.patches:
                patch.stop()
            self.loop.close()
