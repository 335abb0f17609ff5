"""Whoever answers at the port of an engine's KV events costs little memory, and no long turns."""

import asyncio
import contextlib
import itertools
import resource
import time

import msgspec
import pytest

from headgate import engine_client, fleet, routing
from headgate.api import ObjectRef
from headgate.fleet.prefix import PrefixIndex
from headgate.fleet.prefix.account import MAX_BLOCKS
from headgate.observe.kv_events import KvEventSources, applying, subscription, zmtp

KEY = ObjectRef("ModelServer", "default", "pool")

MB = 1 << 20
PATIENCE_S = 30.0
MORE, LONG, COMMAND = 1, 2, 4
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
READY = b"\5READY\x0bSocket-Type\0\0\0\3PUB"


def frame(flags, payload, size=None):
    size = len(payload) if size is None else size
    return bytes([flags | LONG]) + size.to_bytes(8, "big") + payload


def message(number, *events):
    payload = msgspec.msgpack.encode([0.0, events, 0])
    return frame(MORE, b"kv") + frame(MORE, number.to_bytes(8, "big")) + frame(0, payload)


class Publisher:
    """Accepts subscribers, and sends what a test tells it."""

    def __init__(self, greeting=GREETING, ready=None):
        self.greeting = greeting
        self.ready = frame(COMMAND, READY) if ready is None else ready
        self.peers: asyncio.Queue[Peer] = asyncio.Queue()
        self.accepted = 0

    async def start(self):
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _accept(self, reader, writer):
        self.accepted += 1
        writer.write(self.greeting + self.ready)
        peer = Peer(reader, writer)
        self.peers.put_nowait(peer)
        await peer.read_on()

    async def peer(self):
        async with asyncio.timeout(PATIENCE_S):
            return await self.peers.get()

    def close(self):
        self._server.close()
        while not self.peers.empty():
            self.peers.get_nowait().writer.transport.abort()


class Peer:
    """One subscriber, as its publisher sees it."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.received = bytearray()
        self.lost = asyncio.Event()

    async def read_on(self):
        with contextlib.suppress(OSError):
            while data := await self.reader.read(65536):
                self.received += data
        self.lost.set()
        self.writer.transport.abort()

    async def flood(self, piece, most=256 * MB):
        """Sends it again and again until the subscriber disconnects; returns how much."""
        sent = 0
        with contextlib.suppress(OSError):
            while sent < most and not self.lost.is_set():
                self.writer.write(piece)
                sent += len(piece)
                await self.writer.drain()
                await asyncio.sleep(0)
        return sent


@pytest.fixture
async def listening(process):
    """Listens to engines whose KV events come from these publishers."""
    started = []

    async def start(*publishers, ranks=1):
        told = {}
        for number, publisher in enumerate(publishers):
            await publisher.start()
            started.append(publisher)
            endpoint = routing.Endpoint(f"default/pod-{number}", "127.0.0.1", 8000 + number)
            told[endpoint] = routing.KvEvents(port=publisher.port, replay_port=None, ranks=ranks)
        sources = KvEventSources(process, fleet.Ledger(fleet.EjectionPolicy()), PrefixIndex())
        sources.start()
        sources.use([routing.Pool(key=KEY, endpoints=tuple(told), kv_events=told)])
        return sources

    yield start
    for publisher in started:
        publisher.close()


@pytest.fixture
async def ask(start_server):
    """Somebody else's request on the same event loop."""
    client = engine_client.Client(
        "127.0.0.1", await start_server(lambda call: call.answer(b"served")), None, ""
    )

    async def served() -> bool:
        return (await client.get("/", "*/*", 1000, PATIENCE_S)).body == b"served"

    yield served
    client.close()


def source_of(sources):
    (source,) = sources.sources.values()
    return source


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


ENDLESS = {
    "parts of a message": (b"", frame(MORE, b"x" * 100) * 1000),
    "a part": (frame(0, b"", 1 << 40), b"x" * 65536),
    "parts of 3 MB": (b"", frame(MORE, b"x" * 3 * MB)),
    "a command": (frame(COMMAND, b"", 1 << 40), b"x" * 65536),
    "nonsense": (b"", b"\xff" * 65536),
}


@pytest.mark.parametrize(("begin", "more"), ENDLESS.values(), ids=ENDLESS)
async def test_a_publisher_that_sends_without_end_is_left(listening, ask, eventually, begin, more):
    """It is known to be lost, is tried again later, and requests are served as before."""
    publisher = Publisher()
    sources = await listening(publisher)
    peer = await publisher.peer()
    await eventually(lambda: source_of(sources).state == "live")
    before = peak()
    peer.writer.write(begin)
    sent, is_served = await asyncio.gather(peer.flood(more), ask())
    assert sent < 64 * MB
    assert peak() - before < 40
    assert is_served
    await eventually(lambda: source_of(sources).state == "lost" or publisher.accepted > 1)


@pytest.mark.parametrize(
    ("greeting", "ready"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".ljust(64), b""),
        (GREETING[:10] + b"\1" + GREETING[11:], b""),
        (GREETING.replace(b"NULL\0", b"CURVE"), b""),
        (GREETING, frame(COMMAND, b"\5ERROR\4nope")),
        (GREETING, frame(COMMAND, b"", 1 << 40)),
    ],
    ids=["HTTP", "ZMTP 1", "CURVE", "refused", "too long"],
)
async def test_what_is_no_publisher_is_not_listened_to(listening, eventually, greeting, ready):
    """The page of the engine says why."""
    publisher = Publisher(greeting, ready)
    sources = await listening(publisher)
    await eventually(lambda: source_of(sources).problem)
    assert source_of(sources).state == "connecting"
    assert "publisher" in source_of(sources).problem


async def test_large_batches_are_put_to_use_in_slices(listening, eventually):
    """A message of megabytes, with 200,000 blocks, leaves turns to others; all of its blocks are known."""
    publisher = Publisher()
    sources = await listening(publisher)
    peer = await publisher.peer()
    count, events = 20_000, 10
    stored = [
        ["BlockStored", list(range(n * count, (n + 1) * count)), None, [1 + n] * count, 1, None, "GPU"]
        for n in range(events)
    ]
    turns = []

    async def watch():
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            turns.append(time.thread_time() - began)

    peer.writer.write(message(0, *stored))
    watching = asyncio.create_task(watch())
    source = source_of(sources)
    residency = sources.exact.residency
    await eventually(lambda: source.counts()["read"] == 1)
    watching.cancel()
    assert residency.blocks(source.load) == count * events
    assert max(turns) < 0.3, "all of them take 1 s"


async def test_publishers_take_turns(listening, eventually):
    """Of many that send megabytes at the same time, one slice is put to use in a turn of the event loop."""
    publishers = [Publisher() for _ in range(8)]
    sources = await listening(*publishers)
    count = 60_000
    stored = ["BlockStored", list(range(count)), None, [1] * count, 1, None, "GPU"]
    for publisher in publishers:
        (await publisher.peer()).writer.write(message(0, stored))
    turns = []

    async def watch():
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            turns.append(time.thread_time() - began)

    watching = asyncio.create_task(watch())
    await eventually(lambda: sources.counts()["read"] == len(publishers))
    watching.cancel()
    residency = sources.exact.residency
    assert [residency.blocks(load) for load in residency.loads()] == [count] * len(publishers)
    assert max(turns) < 0.1, "to decode one message takes 5 ms of CPU time, all of them in a turn 300 ms"


async def test_messages_that_say_nothing_are_paid_for(listening, eventually, monkeypatch):
    """A flood of them is read as slowly as one of others."""
    rests = []
    monkeypatch.setattr(applying, "REST", 1e-9)
    monkeypatch.setattr(applying.Work, "rest_if_due", counting(rests))
    publisher = Publisher()
    sources = await listening(publisher)
    peer = await publisher.peer()
    peer.writer.write(frame(0, b"") * 100 + message(0) * 100)
    await eventually(lambda: sources.counts()["read"] == 1 and len(rests) >= 200)
    assert source_of(sources).ranks[0]._work.blocks >= 200 * applying.EVENT_BLOCKS


def counting(rests):
    """A pause that takes no time."""

    async def rest(self):
        rests.append(self)

    return rest


async def test_who_closes_at_once_is_asked_less_and_less(listening, eventually, monkeypatch):
    """A publisher that takes subscribers and closes costs connections and lines of the log."""
    pauses = []
    monkeypatch.setattr(subscription, "RECONNECT_S", 0.001)
    monkeypatch.setattr(subscription, "RECONNECT_MAX_S", 0.1)
    publisher = Publisher()
    await listening(publisher)
    for _ in range(9):
        (await publisher.peer()).writer.transport.abort()
        pauses.append(time.monotonic())
    between = [later - earlier for earlier, later in itertools.pairwise(pauses)]
    assert sum(between[-2:]) > 0.15, "twice 0.1 s, after 1, 2, 4, ... ms"


async def test_blocks_beyond_any_cache_are_not_kept(listening, eventually):
    """The message that has too many is counted as invalid."""
    publisher = Publisher()
    sources = await listening(publisher)
    peer = await publisher.peer()
    for number in range(MAX_BLOCKS // 50_000 + 1):
        names = list(range(number * 50_000, (number + 1) * 50_000))
        peer.writer.write(message(number, ["BlockStored", names, None, [number] * 50_000, 1, None, "GPU"]))
    await eventually(lambda: sources.counts()["invalid"] == 1)
    source = source_of(sources)
    assert sources.exact.residency.blocks(source.load) <= MAX_BLOCKS
    assert not sources.exact.residency.is_complete(source.load)


async def test_pings_are_answered(listening, eventually):
    """A publisher that asks whether its subscriber is there learns it."""
    publisher = Publisher()
    await listening(publisher)
    peer = await publisher.peer()
    peer.writer.write(frame(COMMAND, b"\4PING\0\0context"))
    await eventually(lambda: peer.received.endswith(b"\4\x0c\4PONGcontext"))


async def test_a_flood_of_pings_is_answered_slowly(listening, ask, eventually):
    """It waits with its sender, and takes no time from requests."""
    publisher = Publisher()
    await listening(publisher)
    peer = await publisher.peer()
    began = time.monotonic()
    flooding = asyncio.create_task(peer.flood(frame(COMMAND, b"\4PING\0\0") * 10_000))
    for _ in range(20):
        assert await ask()
    await eventually(lambda: peer.received.count(b"PONG") > 3)
    assert peer.received.count(b"PONG") <= 10 + 2 * (time.monotonic() - began) / zmtp.COMMAND_PAUSE_S
    flooding.cancel()


async def test_a_publisher_that_is_gone_without_a_word_is_noticed(listening, eventually, monkeypatch):
    """It answers no ping, as after a loss of power."""
    monkeypatch.setattr(zmtp, "HEARTBEAT_S", 0.05)
    publisher = Publisher()
    sources = await listening(publisher)
    peer = await publisher.peer()
    await eventually(lambda: b"\4PING" in peer.received)
    await eventually(lambda: publisher.accepted > 1)
    assert sources.sources
