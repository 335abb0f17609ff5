"""The engine's counts at the end of a response correct the gateway's estimates."""

import json
import time

import pytest

from headgate import fleet, scheduling
from headgate.dataplane.trust import Networks, Peer
from headgate.fleet.prefix.hashing import BLOCK_BYTES
from headgate.gateway import gauges, in_flight
from headgate.gateway.request import ParsedHead, Request
from headgate.requests import learning
from headgate.requests.deciding.decide import decide
from headgate.requests.reported import Usage
from headgate.requests.usage import Tail, tail_of

PROMPT = "All happy families are alike; each unhappy family is unhappy in its own way. " * 200


def answering(**details):
    """An endpoint that counts 4,000 tokens for every prompt, and says so with these details."""

    def behave(call):
        call.answer(json.dumps({"usage": {"prompt_tokens": 4000, "completion_tokens": 1} | details}).encode())

    return behave


async def cache_aware(start_gateway, *endpoints):
    gateway = await start_gateway(*endpoints)
    (pool,) = gateway.shell.plane.pools.values()
    pool.policy = scheduling.PredictedFirstToken(gateway.shell.plane.prefixes)
    return gateway, pool


def held(gateway, pool):
    return [gateway.shell.plane.prefixes.blocks(load) for load in pool.loads]


@pytest.fixture(name="no_patience")
def _no_patience(monkeypatch):
    """Prompts of before count as prefilled at once."""
    monkeypatch.setattr(learning, "SURE_AFTER_S", -1e9)


async def test_what_was_sent_is_believed_to_be_held(start_gateway, start_endpoint):
    """By the endpoint that got it, and by no other; what another prompt shares with it is found."""
    endpoints = [await start_endpoint(behave=answering()), await start_endpoint(behave=answering())]
    gateway, pool = await cache_aware(start_gateway, *endpoints)
    await gateway.ask({"model": "m", "prompt": PROMPT})
    got = [len(endpoint.calls) for endpoint in endpoints]
    assert sorted(got) == [0, 1]
    assert held(gateway, pool) == [count * (len(PROMPT) // BLOCK_BYTES) for count in got]
    longer = decide(gateway.shell.plane, asking({"model": "m", "prompt": PROMPT[:4000] + "x" * 4000}))
    matched = gateway.shell.plane.prefixes.matched(longer.scheduled.prefix, pool.loads)
    assert matched == [count * (4000 // BLOCK_BYTES) for count in got]
    assert longer.scheduled.tokens_in(7) == 7 * BLOCK_BYTES * 4000 // len(PROMPT)


def asking(body):
    data = json.dumps(body).encode()
    head = ParsedHead(b"POST", b"/v1/completions", [], False, Peer("", Networks(())), b"")
    return Request(head, data, True, 0.0)


async def test_far_fewer_cached_tokens_than_believed_are_a_lesson(start_gateway, start_endpoint, no_patience):
    """What was used before is forgotten; the prompt itself is there again."""
    endpoint = await start_endpoint(behave=answering(prompt_tokens_details={"cached_tokens": 16}))
    gateway, pool = await cache_aware(start_gateway, endpoint)
    clock = gateway.shell.services.now
    gateway.shell.services.now = lambda: clock() - 3600
    await gateway.ask({"model": "m", "prompt": "An older prompt. " + PROMPT})
    await gateway.ask({"model": "m", "prompt": PROMPT})
    gateway.shell.services.now = clock
    before = held(gateway, pool)
    await gateway.ask({"model": "m", "prompt": PROMPT})
    assert before == [2 * (len(PROMPT) // BLOCK_BYTES)]
    assert held(gateway, pool) == [len(PROMPT) // BLOCK_BYTES]
    assert gateway.shell.plane.prefixes.statistics()["forgotten"] == len(PROMPT) // BLOCK_BYTES


@pytest.mark.parametrize("details", [{}, {"prompt_tokens_details": {"cached_tokens": 3000}}])
async def test_an_engine_that_agrees_or_does_not_say_teaches_nothing(
    start_gateway, start_endpoint, no_patience, details
):
    """An absent count is not a count of 0."""
    endpoint = await start_endpoint(behave=answering(**details))
    gateway, _ = await cache_aware(start_gateway, endpoint)
    for _ in range(3):
        await gateway.ask({"model": "m", "prompt": PROMPT})
    assert gateway.shell.plane.prefixes.statistics()["forgotten"] == 0


async def test_a_burst_of_the_same_prompt_teaches_nothing(start_gateway, start_endpoint):
    """The first of them was not prefilled yet as the others were scheduled."""
    endpoint = await start_endpoint(behave=answering(prompt_tokens_details={"cached_tokens": 0}))
    gateway, _ = await cache_aware(start_gateway, endpoint)
    for _ in range(3):
        await gateway.ask({"model": "m", "prompt": PROMPT})
    assert gateway.shell.plane.prefixes.statistics()["forgotten"] == 0


async def test_belief_and_truth_are_counted_side_by_side(start_gateway, start_endpoint):
    """The share of prompts that was believed to be cached, and the share that was."""
    endpoint = await start_endpoint(behave=answering(prompt_tokens_details={"cached_tokens": 1000}))
    gateway, _ = await cache_aware(start_gateway, endpoint)
    for _ in range(2):
        await gateway.ask({"model": "m", "prompt": PROMPT})
    counted = {
        kind: gateway.metric("headgate_gateway_cached_tokens_total", pool="default/pool", kind=kind)
        for kind in ("prompt", "believed", "reported")
    }
    assert counted["prompt"] == 8000
    assert counted["reported"] == 2000
    assert counted["believed"] == pytest.approx(4000, rel=0.05)


async def test_no_more_is_believed_than_the_engine_has_room_for(start_gateway, start_endpoint):
    """Its page tells the size of its cache, and the admin port what is believed of it."""
    endpoint = await start_endpoint(behave=answering())
    gateway, pool = await cache_aware(start_gateway, endpoint)
    await gateway.ask({"model": "m", "prompt": PROMPT})
    (load,) = pool.loads
    load.reading = fleet.EngineReading(at=0.0, block_tokens=16, blocks=80)
    gateway.shell._sweeper.cancel()
    gateway.shell._sweep()
    assert held(gateway, pool) == [80 * 16 * 4 // BLOCK_BYTES]
    (shown,) = in_flight.endpoints(gateway.shell)["default/pool"]
    assert (shown["prefix"]["blocks"], shown["prefix"]["limit"]) == (5, 5)
    assert shown["prefix"]["oldest_age_s"] >= 0
    gauges.add_gauges(gateway.registry, gateway.shell)
    assert gateway.metric("headgate_gateway_prefix_blocks", endpoint="default/pod-0") == 5
    assert gateway.metric("headgate_gateway_prefix_blocks_dropped_total", reason="evicted") > 0


async def test_bytes_per_token_are_learned(start_gateway, start_endpoint):
    """The engine's counts make the next estimate of the same model better."""
    endpoint = await start_endpoint(behave=answering())
    gateway, _ = await cache_aware(start_gateway, endpoint)
    sizes = gateway.shell.plane.sizes.prompts
    assert sizes.bytes_per_token("m") == 4.0
    await gateway.ask({"model": "m", "prompt": PROMPT})
    assert sizes.bytes_per_token("m") == pytest.approx(len(PROMPT) / 4000, rel=0.01)


async def test_an_endpoint_that_refuses_connections_holds_nothing(start_gateway, start_endpoint):
    """Its process has ended; another one that comes in its place begins with an empty cache."""
    endpoint = await start_endpoint(behave=answering())
    gateway, pool = await cache_aware(start_gateway, endpoint)
    await gateway.ask({"model": "m", "prompt": PROMPT})
    assert held(gateway, pool) != [0]
    await endpoint.stop()
    assert (await gateway.ask({"model": "m", "prompt": PROMPT})).status == 503
    assert held(gateway, pool) == [0]


async def test_an_endpoint_that_leaves_is_forgotten(start_gateway, start_endpoint):
    """Its place in the index is another's then."""
    one, other = await start_endpoint(behave=answering()), await start_endpoint(behave=answering())
    gateway, _ = await cache_aware(start_gateway, one)
    await gateway.ask({"model": "m", "prompt": PROMPT})
    assert gateway.shell.plane.prefixes.statistics()["endpoints"] == 1
    await gateway.idle()
    gateway.serve([other])
    gateway.shell.plane.prefixes.validate()
    assert gateway.shell.plane.prefixes.statistics()["endpoints"] == 0
    assert gateway.shell.plane.prefixes.statistics()["blocks"] == 0


@pytest.mark.parametrize(
    ("said", "cached"),
    [
        ('{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":5}}', 5),
        ('{"prompt_tokens":9,"prompt_tokens_details":{"audio_tokens":0,"cached_tokens":0}}', 0),
        ('{"prompt_tokens":9,"prompt_tokens_details":null}', None),
        ('{"input_tokens":9,"input_tokens_details":{"cached_tokens":5},"output_tokens":1}', 5),
        ('{"input_tokens":9,"cache_read_input_tokens":4,"output_tokens":1}', 4),
        ('{"input_tokens":9,"cache_read_input_tokens":null,"output_tokens":1}', None),
        ('{"prompt_tokens":9}', None),
    ],
)
def test_cached_tokens_have_three_names(said, cached):
    """Those of the chat, the responses, and the messages API."""
    tail = Tail()
    tail.add(b'{"choices":[],"usage":' + said.encode() + b"}")
    assert tail.usage().cached == cached


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


TOKENS = b'data: {"type":"content_block_delta","delta":{"text":"water"}}\n\n' * 400
COUNTED = {
    "/v1/completions": b'data: {"choices":[],"usage":{"prompt_tokens":40,"completion_tokens":400,'
    b'"prompt_tokens_details":{"cached_tokens":10}}}\n\ndata: [DONE]\n\n',
    "/v1/messages": b'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":400}}\n\n',
}
STARTED = (
    b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":30,'
    b'"cache_read_input_tokens":10,"output_tokens":1}}}\n\n'
)


@pytest.mark.parametrize("path", COUNTED)
def test_counts_are_read_wherever_a_chunk_ends(path):
    """A proxy before an engine makes chunks of what it happens to read."""
    start, end = STARTED if path == "/v1/messages" else b"", COUNTED[path]
    for place in range(1, max(len(start), len(end))):
        tail = tail_of(path)
        tail.add(chunk(start[:place] or TOKENS))
        tail.add(chunk(start[place:] or TOKENS) + chunk(TOKENS) + chunk(end[:place]))
        tail.add((chunk(end[place:]) if end[place:] else b"") + b"0\r\n\r\n")
        assert tail.usage() == Usage(40, 400, 10), place


@pytest.mark.parametrize("first", [b": waiting\n\n", b'event: ping\ndata: {"type":"ping"}\n\n'])
def test_what_precedes_the_start_of_a_message_hides_no_count(first):
    """A server may keep the connection alive while the request waits."""
    tail = tail_of("/v1/messages")
    for data in (first, first, STARTED, TOKENS, COUNTED["/v1/messages"]):
        tail.add(chunk(data))
    assert tail.usage() == Usage(40, 400, 10)


def test_one_odd_prompt_does_not_change_what_is_known_of_the_others():
    """A prompt of digits has four times as many tokens as its length says."""
    sizes = fleet.PromptSizes()
    for _ in range(47):
        sizes.learn("m", 4200, 1000)
    sizes.learn("m", 4200, 4200)
    assert sizes.bytes_per_token("m") == pytest.approx(4.2, rel=0.02)
    for _ in range(1500):
        sizes.learn("m", 2500, 1000)
    assert sizes.bytes_per_token("m") == pytest.approx(2.5, rel=0.05)
    sizes.learn("short", 100, 90)
    sizes.learn("none", 1000, 0)
    assert sizes.statistics() == {"m": pytest.approx(sizes.bytes_per_token("m"), abs=1e-3)}


def test_counts_are_looked_for_in_bounded_time():
    """An answer can end in thousands of braces of which none belongs to another: a minute's work for one who
    counts them for each of as many members."""
    tail = Tail()
    text = b'"usage":{' * 850 + b"{" * 4000 + b"}" * 3990
    for start in range(0, len(text), 4000):
        tail.add(text[start : start + 4000])
    began = time.process_time()
    assert tail.usage() is None
    assert time.process_time() - began < 20


async def test_the_answer_is_held_as_well_where_it_was_generated(start_gateway, start_endpoint):
    """The next turn finds it there; a turn that leaves out what the model thought does not."""
    counts = {"prompt_tokens": len(PROMPT) // 4, "completion_tokens": 1000}
    endpoints = [await start_endpoint(behave=answering(**counts)) for _ in range(2)]
    gateway, pool = await cache_aware(start_gateway, *endpoints)
    await gateway.ask({"model": "m", "prompt": PROMPT})
    answered = [len(endpoint.calls) for endpoint in endpoints]
    for answer, blocks in ((4000, (len(PROMPT) + 4000) // BLOCK_BYTES), (2000, len(PROMPT) // BLOCK_BYTES)):
        body = {"model": "m", "prompt": PROMPT + "a" * answer + " And then?" * 100}
        turn = decide(gateway.shell.plane, asking(body)).scheduled.prefix
        matched = gateway.shell.plane.prefixes.matched(turn, pool.loads)
        assert matched == [count * blocks for count in answered]
