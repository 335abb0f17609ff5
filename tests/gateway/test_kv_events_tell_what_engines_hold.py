"""KV events of engines arrive over ZeroMQ; missed ones are requested again."""

import asyncio
import contextlib
import json

import msgspec
import pytest
import zmq
import zmq.asyncio

from headgate import routing, scheduling
from headgate.fleet.prefix import hashing
from headgate.gateway import gauges, in_flight
from headgate.observe.kv_events import sources
from headgate.observe.kv_events import tokens as tokens_module
from headgate.observe.kv_events.subscription import END

BLOCK = 16
PROMPT = "Call me Ishmael. Some years ago - never mind how long precisely - I thought I would sail. " * 60


class Publisher:
    """An engine's side of the protocol, with as much memory as a test gives it."""

    def __init__(self, form="array"):
        self.context = zmq.asyncio.Context()
        self.form = form
        self.sent = []
        self.asked = []
        self.forgets_before = 0
        self.is_mute = False
        self._router = self.context.socket(zmq.ROUTER)
        self.replay_port = self._router.bind_to_random_port("tcp://127.0.0.1")
        self._repeating = asyncio.ensure_future(self._repeat())
        self.port = 0
        self.listen()

    def listen(self):
        self._pub = self.context.socket(zmq.XPUB)
        self.port = self._pub.bind_to_random_port("tcp://127.0.0.1")

    async def subscribed(self):
        async with asyncio.timeout(60):
            assert await self._pub.recv() == b"\1"

    async def publish(self, *events, is_lost=False, payload=None):
        """Sends a batch; a lost one only gets a number."""
        number = len(self.sent)
        if payload is None:
            payload = msgspec.msgpack.encode([0.0, list(events), 0])
        self.sent.append(payload)
        if not is_lost:
            await self._pub.send_multipart([b"kv@pod@model", number.to_bytes(8, "big"), payload])

    async def _repeat(self):
        while True:
            client, empty, start = await self._router.recv_multipart()
            begin = int.from_bytes(start, "big")
            self.asked.append(begin)
            if self.is_mute:
                continue
            for number in range(max(begin, self.forgets_before), len(self.sent)):
                frames = [client, empty, number.to_bytes(8, "big"), self.sent[number]]
                await self._router.send_multipart(frames)
            await self._router.send_multipart([client, empty, END.to_bytes(8, "big"), b""])

    def stop_publishing(self):
        self._pub.close(linger=0)

    async def close(self):
        self._repeating.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._repeating
        self._pub.close(linger=0)
        self._router.close(linger=0)
        self.context.term()


def tokens_of(text):
    """A made-up tokenizer: four characters each."""
    data = text.encode()
    return [int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data), 4)]


def stored(tokens, form="array"):
    names = [hash(tuple(tokens[:end])) % 2**63 for end in range(BLOCK, len(tokens) + 1, BLOCK)]
    whole = tokens[: len(names) * BLOCK]
    if form == "array":
        return ["BlockStored", names, None, whole, BLOCK, None]
    return {
        "type": "BlockStored",
        "block_hashes": names,
        "parent_block_hash": None,
        "token_ids": whole,
        "block_size": BLOCK,
    }


def removed(tokens, begin=0):
    names = [hash(tuple(tokens[:end])) % 2**63 for end in range(BLOCK, len(tokens) + 1, BLOCK)]
    return ["BlockRemoved", names[begin:]]


def engine(call):
    """Tokenises, and answers everything else."""
    if call.target == "/tokenize":
        tokens = tokens_of(call.json["prompt"])
        call.answer(json.dumps({"count": len(tokens), "max_model_len": 99_999, "tokens": tokens}).encode())
    else:
        call.answer(b"{}")


@pytest.fixture(name="publisher")
async def _publisher():
    publisher = Publisher()
    yield publisher
    await publisher.close()


@pytest.fixture(name="listening")
def _listening(start_gateway, start_endpoint, publisher):
    """A gateway over an engine that publishes and one that does not."""

    async def start(behave=engine, replay=True):
        endpoints = [await start_endpoint(behave=behave), await start_endpoint(behave=behave)]
        gateway = await start_gateway(*endpoints)
        told = routing.Endpoint("default/pod-0", "127.0.0.1", endpoints[0].port)
        events = routing.KvEvents(port=publisher.port, replay_port=publisher.replay_port if replay else None)
        gateway.serve(endpoints, kv_events={told: events})
        gateway.shell.kv_events.start()
        (pool,) = gateway.shell.plane.pools.values()
        pool.policy = scheduling.PredictedFirstToken(gateway.shell.plane.prefixes)
        await publisher.subscribed()
        return gateway, pool

    return start


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def source_of(gateway):
    (source,) = gateway.shell.kv_events.sources.values()
    return source


def blocks(gateway):
    source = source_of(gateway)
    return gateway.shell.kv_events.exact.residency.blocks(source.load)


def shown(gateway):
    return in_flight.endpoints(gateway.shell)["default/pool"][0]["prefix"]


TOKENS = tokens_of(PROMPT)
COUNT = len(TOKENS) // BLOCK


@pytest.mark.parametrize("form", ["array", "map"])
async def test_what_an_engine_tells_is_known(listening, publisher, form):
    """In both forms; the page says that it is known, and not only believed."""
    gateway, _ = await listening()
    await publisher.publish(stored(TOKENS, form))
    await until(lambda: blocks(gateway) == COUNT)
    await until(lambda: shown(gateway)["events"]["is_complete"])
    page = shown(gateway)
    assert page["source"] == "events"
    assert page["events"]["state"] == "live"
    assert page["events"]["block_tokens"] == BLOCK
    await publisher.publish(removed(TOKENS, 5))
    await until(lambda: blocks(gateway) == 5)
    await publisher.publish(["AllBlocksCleared"])
    await until(lambda: blocks(gateway) == 0)


async def test_tokens_are_learned_from_the_engine(listening, publisher):
    """A prompt that was evicted is not believed any more, and one that another gateway sent is found."""
    gateway, pool = await listening()
    telling, other = pool.loads
    other.failed(gateway.shell.now())  # so that the first goes to the one that tells
    await publisher.publish(stored(tokens_of("x" * 4 * BLOCK)))
    await until(lambda: blocks(gateway) == 1)
    await until(lambda: shown(gateway)["events"]["is_complete"])  # until then, what is believed counts
    await gateway.ask({"model": "m", "prompt": PROMPT})
    counts = gateway.shell.kv_events.tokens.counts
    await until(lambda: counts["learned"] == 1)
    prefix = prefix_of_prompt()
    gateway.shell.kv_events.exact.residency.sweep(1e12)
    assert gateway.shell.plane.prefixes.matched(prefix, [telling, other]) == [0, 0]
    await publisher.publish(stored(TOKENS))
    await until(lambda: blocks(gateway) > 1)
    assert gateway.shell.plane.prefixes.matched(prefix, [telling, other]) == [len(prefix), 0]
    await publisher.publish(removed(TOKENS, COUNT // 2))
    await until(lambda: blocks(gateway) == COUNT // 2 + 1)
    (matched, _) = gateway.shell.plane.prefixes.matched(prefix, [telling, other])
    assert 0.35 * len(prefix) < matched <= len(prefix) // 2
    await gateway.ask({"model": "m", "prompt": PROMPT})
    assert counts["learned"] == 1


def prefix_of_prompt():
    text = json.dumps(PROMPT).encode()[:-1]
    return hashing.hashes(text, hashing.seed("m"))


async def test_a_flood_of_messages_leaves_others_their_turns(publisher, start_gateway, start_endpoint):
    """Messages that are there already are received without waiting; requests come in between all the same."""
    publisher.sent = [msgspec.msgpack.encode([0.0, [], 0])] * 500
    endpoint = await start_endpoint()
    gateway = await start_gateway(endpoint)
    told = routing.Endpoint("default/pod-0", "127.0.0.1", endpoint.port)
    events = routing.KvEvents(port=publisher.port, replay_port=publisher.replay_port)
    gateway.shell.kv_events.start()
    gateway.serve([endpoint], kv_events={told: events})
    read, most = 0, 0
    async with asyncio.timeout(60):
        while read < 500:
            await asyncio.sleep(0)
            counts = gateway.shell.kv_events.counts()
            before, read = read, counts["read"] + counts["repeated"]
            most = max(most, read - before)
    assert most <= 5


async def test_what_was_missed_is_asked_for(listening, publisher):
    """A hole in the numbers is filled from the memory of the publisher."""
    gateway, _ = await listening()
    await publisher.publish(stored(TOKENS))
    await until(lambda: blocks(gateway) == COUNT)
    await publisher.publish(removed(TOKENS, 10), is_lost=True)
    await publisher.publish(removed(TOKENS, 12), is_lost=True)
    await publisher.publish(["SomethingNew"])
    await until(lambda: gateway.shell.kv_events.counts()["repeated"] >= 2)
    assert blocks(gateway) == 10
    assert publisher.asked[-1] == 1
    assert gateway.shell.kv_events.counts()["missed"] == 0
    await until(lambda: shown(gateway)["events"]["is_complete"])


@pytest.mark.parametrize("replay", [True, False])
async def test_what_is_missed_for_good_is_known_to_be_missing(listening, publisher, replay):
    """What was told before holds no more, and the engine may hold more than it tells of now."""
    gateway, _ = await listening(replay=replay)
    await publisher.publish(stored(TOKENS))
    await until(lambda: blocks(gateway) == COUNT)
    publisher.forgets_before = 2
    await publisher.publish(removed(TOKENS), is_lost=True)
    await publisher.publish(stored(TOKENS[:32]))
    await until(lambda: blocks(gateway) == 2)
    page = shown(gateway)["events"]
    assert not page["is_complete"]
    assert page["messages"]["missed"] == 1


async def test_a_gateway_that_comes_later_asks_for_all(publisher, start_gateway, start_endpoint):
    """The engine has been up for long: it repeats what it has."""
    await publisher.publish(stored(TOKENS))
    endpoint = await start_endpoint(behave=engine)
    gateway = await start_gateway(endpoint)
    events = routing.KvEvents(port=publisher.port, replay_port=publisher.replay_port)
    gateway.shell.kv_events.start()
    gateway.serve(
        [endpoint], kv_events={routing.Endpoint("default/pod-0", "127.0.0.1", endpoint.port): events}
    )
    await until(lambda: gateway.shell.kv_events.sources and blocks(gateway) == COUNT)
    await until(lambda: shown(gateway)["events"]["is_complete"])


async def test_a_publisher_that_begins_anew_has_an_empty_cache(listening, publisher):
    """Its numbers begin at 0 again."""
    gateway, _ = await listening()
    await publisher.publish(stored(TOKENS))
    await until(lambda: blocks(gateway) == COUNT)
    await publisher.publish(["SomethingNew"])
    await until(lambda: gateway.shell.kv_events.counts()["read"])
    publisher.sent.clear()
    await publisher.publish(stored(TOKENS[:48]))
    await until(lambda: blocks(gateway) == 3)
    assert shown(gateway)["events"]["is_complete"]


async def test_a_publisher_that_dies_leaves_belief(listening, publisher):
    """The page, a metric and the log say so; when it is back, it is listened to again."""
    gateway, _ = await listening()
    gauges.add_gauges(gateway.registry, gateway.shell)
    await publisher.publish(stored(TOKENS))
    await until(lambda: blocks(gateway) == COUNT)
    assert gateway.metric("headgate_gateway_kv_event_sources", state="live") == 1
    publisher.stop_publishing()
    await until(lambda: source_of(gateway).state == "lost")
    assert source_of(gateway).load not in gateway.shell.kv_events.exact.residency
    assert shown(gateway)["source"] == "approximate"
    assert gateway.metric("headgate_gateway_kv_event_sources", state="lost") == 1


async def test_a_publisher_that_is_silent_leaves_belief(listening, publisher, monkeypatch):
    """It was sent a prompt that it must have stored, and told nothing."""
    monkeypatch.setattr(sources, "SILENT_S", -1.0)
    gateway, pool = await listening()
    pool.loads[1].failed(gateway.shell.now())
    await gateway.ask({"model": "m", "prompt": PROMPT})
    gateway.shell.kv_events.sweep(gateway.shell.now())
    assert shown(gateway)["source"] == "approximate"
    assert shown(gateway)["events"]["state"] == "silent"
    assert gateway.shell.kv_events.silences == 1
    await until(lambda: source_of(gateway).ranks[0].state == "live")
    await publisher.publish(stored(TOKENS))
    await publisher.publish(stored(TOKENS))
    await until(lambda: source_of(gateway).state == "live")


async def test_counts_are_there_before_anything_has_happened(start_gateway, start_endpoint):
    """A series that begins with its first fault has no rate of faults."""
    gateway = await start_gateway(await start_endpoint())
    counted = dict(gateway.shell.kv_events.counts())
    assert counted == {"read": 0, "repeated": 0, "invalid": 0, "missed": 0}


async def test_prompts_without_a_turn_are_not_looked_at(listening, publisher, monkeypatch):
    """More of them than are tokenised cost next to nothing."""
    gateway, pool = await listening()
    pool.loads[1].failed(gateway.shell.now())
    await publisher.publish(stored(TOKENS))
    await until(lambda: blocks(gateway) == COUNT)
    tokens = gateway.shell.kv_events.tokens
    monkeypatch.setattr(tokens_module, "PER_S", 0.0)
    tokens._saved = 0.0
    monkeypatch.setattr(tokens_module, "_tokenize_request", None)
    assert (await gateway.ask({"model": "m", "prompt": PROMPT})).status == 200
    assert tokens.counts["skipped"] == 1


async def test_messages_that_are_none_break_nothing(listening, publisher):
    """They are counted, and what is told afterwards is known."""
    gateway, _ = await listening()
    await publisher.publish(payload=b"\xc1nonsense")
    await publisher._pub.send_multipart([b"lonely"])
    await publisher._pub.send_multipart([b"topic", b"short", b"x"])
    await publisher.publish(stored(TOKENS))
    await until(lambda: blocks(gateway) == COUNT)
    await until(lambda: gateway.shell.kv_events.counts()["invalid"] == 3)
    assert not shown(gateway)["events"]["is_complete"]


@pytest.mark.parametrize(
    ("answer", "status"),
    [(b"not found", "404 Not Found"), (b'{"tokens": [' + b"1," * 30_000 + b"1]}", "200 OK")],
    ids=["404", "more tokens than bytes"],
)
async def test_an_engine_that_does_not_tokenise_is_left_alone(listening, publisher, answer, status):
    """Its prompts are believed, and it is not asked again for a while."""

    def behave(call):
        if call.target == "/tokenize":
            call.answer(answer, status=status)
        else:
            call.answer(b"{}")

    gateway, pool = await listening(behave=behave)
    pool.loads[1].failed(gateway.shell.now())
    await publisher.publish(stored(TOKENS))
    await until(lambda: blocks(gateway) == COUNT)
    counts = gateway.shell.kv_events.tokens.counts
    await gateway.ask({"model": "m", "prompt": PROMPT})
    await until(lambda: counts["failed"] == 1)
    await gateway.ask({"model": "m", "prompt": PROMPT + PROMPT})
    assert counts["skipped"] == 1
