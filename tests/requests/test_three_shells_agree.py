"""The same histories in all shells: the gateway over HTTP, the simulator, the endpoint picker over external
processing, and the minimal one.

The decisions, the attempts and their ends, the client's response and the final accounts are equal, field by
field.
"""

import asyncio
import json
from types import SimpleNamespace

import msgspec
import pytest
from hand_shell import HandShell
from one_plane import POOL, FirstWins, Plane

from headgate import extproc, routing
from headgate.dataplane.records.recorder import Recorder
from headgate.dataplane.settings import EngineMetrics, Queue, Scheduling
from headgate.dataplane.trust import Networks, Peer
from headgate.engines.transfer import PrefillResponse
from headgate.flow.configuration import Queueing
from headgate.flow.queue import FlowSettings
from headgate.gateway import GatewaySettings
from headgate.gateway.connections import EndpointConnections
from headgate.gateway.exchange import Exchange
from headgate.gateway.request import ParsedHead, Request
from headgate.gateway.shell import Shell
from headgate.gateway.upstream import UpstreamConnection
from headgate.picker.settings import PickerSettings
from headgate.picker.shell import Shell as PickerShell
from headgate.requests import effects, prefill_way, states, way
from headgate.requests.queueing.pool_queue import PoolQueue
from headgate.simulator.fleet.exchange import SimulatedExchange
from headgate.simulator.fleet.observer import Observer
from headgate.simulator.fleet.queue_shell import VirtualShell
from headgate.simulator.fleet.request import TracedRequest
from headgate.simulator.fleet.timeline import Timeline
from headgate.simulator.fleet.transfers import SharedLink
from headgate.simulator.fleet.uptime import Uptime
from headgate.simulator.model import FinishedRequest
from headgate.telemetry import Registry
from headgate.traffic.traces import TimedRequest

PROMPT = "x" * 400
USAGE = {"prompt_tokens": 100, "completion_tokens": 7}
PREFILLED = b'{"kv_transfer_params":{"remote_port":1}}'


# -- what all of them are told


LATER_S = 1.5
"""A request that has lost the only endpoint is sent again after a second."""


class Story:
    """How the endpoints behave, in the order in which they are asked."""

    def __init__(
        self,
        *behaviours: str,
        endpoints: int = 2,
        connector: str | None = None,
        starts: str = "",
        start_s: float = 30.0,
        **pool: object,
    ):
        """`starts`: what happens to the start of a pool that is at zero when the request comes."""
        self.behaviours = list(behaviours)
        self.endpoints, self.connector, self.pool = endpoints, connector, pool
        self.starts = starts
        if starts:
            self.pool = {"start": routing.Start(start_s)} | pool

    def next(self) -> str:
        return self.behaviours.pop(0) if self.behaviours else "serves"

    def plane(self, **other: object) -> Plane:
        endpoints = 0 if self.starts else self.endpoints
        plane = Plane(endpoints=endpoints, connector=self.connector, **self.pool)
        for name, value in other.items():
            setattr(plane.plane, name, value)
        return plane

    @property
    def started_after_s(self) -> float:
        """When something becomes of the start, if there is one."""
        return 600.0 if self.starts == "takes too long" else 12.5

    def start(self, one: Plane) -> None:
        """What becomes of the start."""
        if self.starts == "succeeds":
            one.serve(range(self.endpoints))
        elif self.starts == "fails":
            one.pool_fields["start"] = routing.Start(30.0, "no GPU is free")
            one.serve(())


STORIES = {
    "served": lambda: Story("serves"),
    "a reset, then served": lambda: Story("resets", "serves"),
    "two resets": lambda: Story("resets", "resets"),
    "no retries": lambda: Story("resets", attempts=0),
    "a 503, then served": lambda: Story("503", "serves"),
    "two 503": lambda: Story("503", "503"),
    "a 503, then a 500": lambda: Story("503", "500"),
    "a client's mistake": lambda: Story("400"),
    "a mistake that only one finds": lambda: Story("503", "400"),
    "too many, everywhere": lambda: Story("429", "429"),
    "not found by one": lambda: Story("404", "serves"),
    "breaks off": lambda: Story("begins and resets"),
    "nobody there": lambda: Story(endpoints=0),
    "only one there": lambda: Story("resets", endpoints=1),
    "three of them": lambda: Story("503", "resets", "serves", endpoints=3, attempts=2),
    "prefilled": lambda: Story("serves", "serves", connector="nixl"),
    "prefill resets": lambda: Story("resets", "serves", connector="nixl", endpoints=4),
    "no other to prefill": lambda: Story("resets", "serves", connector="nixl"),
    "prefill refused": lambda: Story("400", "serves", connector="nixl"),
    "prefill overloaded": lambda: Story("503", "serves", "serves", connector="nixl", endpoints=4),
    "started": lambda: Story("serves", starts="succeeds"),
    "started, and a reset": lambda: Story("resets", "serves", starts="succeeds"),
    "started, and only one there": lambda: Story("resets", starts="succeeds", endpoints=1),
    "started, and the only one resets twice": lambda: Story(
        "resets", "resets", starts="succeeds", endpoints=1
    ),
    "started in pairs": lambda: Story("serves", "serves", starts="succeeds", connector="nixl"),
    "start fails": lambda: Story(starts="fails"),
    "start failed before": lambda: Story(starts="fails", start=routing.Start(30.0, "no GPU is free")),
    "start takes too long": lambda: Story(starts="takes too long"),
    "start would take too long": lambda: Story(starts="comes too late", start_s=900.0),
    "decode resets": lambda: Story("serves", "resets", "serves", "serves", connector="nixl", endpoints=4),
}


def books(life, plane) -> dict[str, object]:
    """All that is decided and settled, without times."""
    account, decision, pairing = life.account, life.decision, life.pairing
    loads = sorted(plane.ledger.loads(), key=lambda load: load.endpoint.name)
    pool = plane.pools[POOL]
    return {
        "pool": life.pool.pool.key,
        "asked for": decision.upstream_model,
        "prompt": decision.scheduled.prompt_tokens,
        "stream": decision.stream,
        "endpoint": life.load.endpoint.name if life.load is not None else None,
        "chosen": life.choice.load.endpoint.name if life.choice is not None else None,
        "attempts": account.attempts,
        "failed": [(each.endpoint, each.reason) for each in account.failed_attempts or ()],
        "status": account.status,
        "of the endpoint": account.upstream_status,
        "outcome": account.outcome,
        "is an error": bool(account.error_message),
        "tokens": account.usage and (account.usage.prompt, account.usage.completion),
        "waited": life.wait and (life.wait.holds, life.wait.dropped_reason, life.wait.is_for_endpoint),
        "for a start": life.wait and round(life.wait.start_seconds(0.0)),
        "began": bool(account.first_byte_at),
        "prefill": None if pairing is None else (pairing.decision, pairing.told()["endpoint"]),
        "endpoints": [
            (
                load.endpoint.name,
                *(load.started, load.failures, load.failures_in_row, list(load.reasons)),
                *(load.requests, load.work_tokens, load.output_tokens, load.avoided_until > 0),
            )
            for load in loads
        ],
        "retries": (pool.budget.requests, pool.budget.granted, pool.budget.denied),
        "answers": plane.sizes.answers.statistics(),
    }


# -- the queue of a pool that is started


def with_queue(story: Story, one: Plane, shell) -> PoolQueue | None:
    """The queue that every gateway has; here only in stories of starts."""
    if not story.starts:
        return None
    queueing = Queueing(flow=FlowSettings(is_on=False))
    queue = one.pool.queue = PoolQueue(one.plane, one.pool, queueing, shell, one.now)
    return queue


def start(story: Story, one: Plane, queue: PoolQueue) -> None:
    story.start(one)
    queue.use(one.pool, one.now)
    one.pool.queue = queue


# -- the least shell


def in_process(story: Story):
    one = story.plane()
    alarm = HandShell()
    queue = with_queue(story, one, alarm)
    shell = one.ask({"model": "m", "prompt": PROMPT, "stream": True})
    if queue is not None and not shell.life.is_over:
        one.now += story.started_after_s
        start(story, one, queue)
        alarm.look(one.now)
    while not shell.life.is_over:
        if shell.life.state == states.QUEUED:
            one.now += LATER_S
            queue.sweep(one.now)
            alarm.look(one.now)
            continue
        one.now += 0.1
        behaviour = story.next()
        if isinstance(shell.done[-1], effects.Prefill):
            _prefill(one, shell, behaviour)
            continue
        one.report(shell, way.sent)
        if behaviour == "resets":
            one.report(shell, way.endpoint_lost, "reset", is_crossed=False, has_begun=False)
            continue
        one.report(shell, way.head, int(behaviour) if behaviour.isdigit() else 200, None)
        if shell.life.state != states.ANSWERING:
            continue
        if behaviour.isdigit():
            one.report(shell, way.finished)
            continue
        shell.received.tail.add(json.dumps({"usage": USAGE}, separators=(",", ":")).encode())
        shell.received.size = 1000
        one.report(shell, way.first_byte)
        shell.received.has_passed = True
        if behaviour == "begins and resets":
            shell.received.forget(shell.life.request.path)
            shell.received.size = 40
            one.report(shell, way.endpoint_lost, "reset", is_crossed=False, has_begun=True)
        else:
            one.report(shell, way.finished)
    return shell.life, one.plane


def _prefill(one, shell, behaviour):
    attempt = shell.life.pairing.running
    one.report(shell, prefill_way.prefill_sent)
    if behaviour == "resets":
        one.report(shell, prefill_way.prefill_failed, "reset", "reset")
        return
    one.report(shell, prefill_way.prefill_head, int(behaviour) if behaviour.isdigit() else 200, None)
    if shell.life.pairing.running is not attempt:
        return
    if behaviour.isdigit():
        one.report(shell, prefill_way.prefill_refused, int(behaviour), [], b"{}")
    else:
        one.report(shell, prefill_way.prefilled, msgspec.json.decode(PREFILLED, type=PrefillResponse))


# -- the simulator


class Engines:
    """A run of the simulator whose engines do what the story says."""

    def __init__(self, story: Story, plane) -> None:
        self.story, self.plane = story, plane
        self.timeline = Timeline()
        self.timeline.now = 1000.0
        self.observer = Observer()
        self.link = SharedLink(self.timeline, 1e12, 0.0)

    def endpoint(self, load):
        return Engine(self, load)

    def ended(self, exchange):
        exchange.record()


class Engine:
    config = SimpleNamespace(block_size=16, kv_bytes_per_token=1)

    def __init__(self, run: Engines, load) -> None:
        self._run, self.load, self.uptime = run, load, Uptime()

    def send(self, request, listener):
        self._run.timeline.at(self._run.timeline.now + 0.1, lambda: self._behave(request, listener))

    def _behave(self, request, listener):
        behaviour, now = self._run.story.next(), self._run.timeline.now
        ended = FinishedRequest(
            request_id=request.request_id,
            reason="length",
            prompt_tokens=request.prompt_tokens,
            output_tokens=request.output_tokens,
            preemptions=0,
            arrived_s=now,
            started_s=now,
            first_token_s=now,
            finished_s=now,
        )
        if behaviour == "resets":
            listener.broken(None)
        elif behaviour.isdigit():
            listener.responded(int(behaviour), None)
        else:
            listener.first_token()
            if behaviour == "begins and resets":
                listener.broken(None)
            else:
                listener.finished(ended)

    def cached_tokens(self, request):
        return 0

    def cancel(self, request_id): ...
    def watch(self, watcher): ...
    def unwatch(self, watcher): ...
    def release_kv(self, request_id): ...


def simulated(story: Story):
    one = story.plane()
    run = Engines(story, one.plane)
    timed = TimedRequest(at_s=1000.0, prompt_tokens=100, output_tokens=7)
    exchange = SimulatedExchange(run, TracedRequest(0, timed), one.pool)
    exchange.life.decision.upstream_model = exchange.life.decision.scheduled.model = "m"
    queue = with_queue(story, one, VirtualShell(run.timeline, lambda: None))
    exchange.start()
    if queue is not None:

        def later():
            one.now = run.timeline.now
            start(story, one, queue)

        run.timeline.at(1000.0 + story.started_after_s, later)
        for number in range(1, 4):
            at_s = 1000.0 + story.started_after_s + number * LATER_S
            run.timeline.at(at_s, lambda: queue.sweep(run.timeline.now))
    run.timeline.run()
    return exchange.life, one.plane


# -- the gateway


class Loop(asyncio.SelectorEventLoop):
    now = 1000.0

    def time(self) -> float:
        return self.now


class Wire(asyncio.Transport):
    """An endpoint that does what the story says, a tenth of a second after it was asked."""

    def __init__(self, loop: Loop, story: Story, protocol) -> None:
        super().__init__()
        self._loop, self._story, self._protocol, self._is_over = loop, story, protocol, False
        protocol.connection_made(self)

    def write(self, data):
        self._loop.now += 0.1
        self._loop.call_soon(self._behave, self._story.next(), b'"max_tokens":1' in data)

    def _behave(self, behaviour, is_prefill):
        if self._is_over:
            return
        body = (
            PREFILLED
            if is_prefill
            else b"data: %b\n\n" % json.dumps({"usage": USAGE}, separators=(",", ":")).encode()
        )
        if behaviour == "resets":
            self.abort()
        elif behaviour.isdigit():
            head = b"HTTP/1.1 %b No\r\ncontent-length: 0\r\n\r\n" % behaviour.encode()
            self._protocol.data_received(head)
        elif behaviour == "begins and resets":
            self._protocol.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n" + b"x" * 40)
            self.abort()
        else:
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
            self._protocol.data_received(head % len(body) + body)

    def abort(self):
        if not self._is_over:
            self._is_over = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    def is_closing(self):
        return self._is_over

    def get_write_buffer_size(self):
        return 0

    def pause_reading(self): ...
    def resume_reading(self): ...


class Client:
    is_paused = False

    def __init__(self):
        self.written = b""

    def write(self, data):
        self.written += data

    def writer(self):
        return self.write

    def refuse(self, refusal, request, request_id): ...
    def exchange_done(self, keep_alive, now): ...
    def abort(self): ...


def over_http(story: Story, monkeypatch):
    loop = Loop()

    async def connect(connections):
        made = UpstreamConnection(connections)
        Wire(loop, story, made)
        connections._open.add(made)
        return made

    monkeypatch.setattr(EndpointConnections, "connect", connect)
    settings = GatewaySettings().replace(
        engine_metrics_enabled=False, queue_enabled=False, endpoints_retries=1, scheduling_policy="least-work"
    )
    shell = Shell(settings, Recorder(Registry(), None), loop, FirstWins())
    one = story.plane()
    shell.use(one.plane.snapshot)
    shell.plane.is_ready = True
    body = json.dumps({"model": "m", "prompt": PROMPT, "stream": True}).encode()
    peer = Peer("", Networks(()))
    head = ParsedHead(b"POST", b"/v1/completions", [], False, peer, b"g")
    request = Request(head, body, True, loop.now)
    exchange = Exchange(shell.services, Client(), request)
    exchange.start(loop.now)
    if story.starts and not exchange.life.is_over:
        loop.run_until_complete(asyncio.sleep(0))
        loop.now += story.started_after_s
        one.now = loop.now
        story.start(one)
        shell.use(one.plane.snapshot)
    for turn in range(100):
        if exchange.life.is_over:
            break
        loop.run_until_complete(asyncio.sleep(0))
        if turn % 25 == 24 and exchange.life.state == states.QUEUED:
            loop.now += LATER_S
            shell.queues.sweep()
    found = exchange.life, shell.plane
    told = books(*found)
    loop.run_until_complete(shell.close())
    loop.close()
    return found[0], told


# -- the picker


class Call:
    """The call of a proxy, which sends what the story says of the endpoint that it is told."""

    def __init__(self):
        self.replies, self.is_finished = [], False

    def send(self, message):
        self.replies.append(extproc.decode_response(message))

    def finish(self, status=0, message=""):
        self.is_finished = True


def over_ext_proc(story: Story):
    loop = Loop()
    settings = PickerSettings(
        scheduling=Scheduling(policy="least-work"),
        queue=Queue(enabled=False),
        engine_metrics=EngineMetrics(enabled=False),
    )
    shell = PickerShell(settings, Recorder(Registry(), None), loop, FirstWins())
    one = story.plane()
    shell.plane.use(one.plane.snapshot, loop.now)
    shell.plane.is_ready = True
    call = Call()
    stream = shell.open(call)

    def send(message, *, is_response=False, protocol=None):
        request = extproc.ProcessingRequest(message, is_response, protocol=protocol)
        stream.message(extproc.encode_request(request))

    both = extproc.Protocol(extproc.FULL_DUPLEX_STREAMED, extproc.FULL_DUPLEX_STREAMED)
    send(extproc.HttpHeaders([(b":path", b"/v1/completions")]), protocol=both)
    body = json.dumps({"model": "m", "prompt": PROMPT, "stream": True}).encode()
    send(extproc.HttpBody(body[:100]))
    send(extproc.HttpBody(body[100:], end_of_stream=True))
    loop.now += 0.1
    if not stream.life.is_over:
        behaviour = story.next()
        status = behaviour if behaviour.isdigit() else "200"
        head = [(b":status", status.encode()), (b"content-type", b"text/event-stream")]
        send(extproc.HttpHeaders(head, end_of_stream=behaviour.isdigit()), is_response=True)
        if not behaviour.isdigit():
            usage = json.dumps({"usage": USAGE}, separators=(",", ":")).encode()
            send(extproc.HttpBody(b"data: %b\n\n" % usage), is_response=True)
            send(extproc.HttpBody(end_of_stream=True), is_response=True)
    assert call.is_finished
    told = books(stream.life, shell.plane)
    loop.run_until_complete(shell.close())
    loop.close()
    return told


@pytest.mark.parametrize("name", STORIES)
def test_what_is_decided_and_settled(name, monkeypatch):
    """Prompt tokens are estimated by the one, and known to the other: they are not compared."""
    life, plane = in_process(STORIES[name]())
    least = books(life, plane)
    life, plane = simulated(STORIES[name]())
    virtual = books(life, plane)
    _, over = over_http(STORIES[name](), monkeypatch)
    assert least["outcome"]
    for other in (virtual, over):
        for found in (least, other):
            found.pop("prompt", None)
        assert other == least


ONCE = {
    "served": lambda: Story("serves", attempts=0),
    "by one of three": lambda: Story("serves", endpoints=3, attempts=0),
    "a 503": lambda: Story("503", attempts=0),
    "a 500": lambda: Story("500", attempts=0),
    "a 429": lambda: Story("429", attempts=0),
    "a 404": lambda: Story("404", attempts=0),
    "a client's mistake": lambda: Story("400", attempts=0),
    "nobody there": lambda: Story(endpoints=0, attempts=0),
}
"""Without retries, which are the proxy's in front of a picker."""


@pytest.mark.parametrize("name", ONCE)
def test_a_picker_decides_and_settles_the_same(name, monkeypatch):
    """As the gateway does, and the minimal shell."""
    life, plane = in_process(ONCE[name]())
    least = books(life, plane)
    picked = over_ext_proc(ONCE[name]())
    _, over = over_http(ONCE[name](), monkeypatch)
    assert least["outcome"]
    assert picked == over
    for found in (least, picked):
        found.pop("prompt", None)
    assert picked == least
