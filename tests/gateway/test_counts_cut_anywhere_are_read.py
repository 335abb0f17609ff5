"""Token counts may arrive in any pieces or break off: they are read if they are complete."""

import pytest

from headgate.requests.usage import MessagesTail, Tail, tail_of

USAGE = b'"usage": {"prompt_tokens":7,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":3}}'
BODY = b'{"choices":[],' + USAGE + b"}"
MESSAGE = b'event: message_start\ndata: {"message":{"usage":{"input_tokens":7,"output_tokens":1}}}\n\n'


@pytest.mark.parametrize("size", range(len(BODY)))
def test_counts_that_break_off(size):
    """Only the whole object counts; whatever is there of it, nothing fails."""
    tail = Tail()
    tail.add(BODY[:size])
    whole = BODY[:size].count(b"}") >= 2
    assert (tail.usage() is not None) == whole


@pytest.mark.parametrize("size", range(len(MESSAGE)))
def test_counts_of_a_message_that_break_off(size):
    """The same of the messages API, whose counts stand at the beginning."""
    tail = tail_of("/v1/messages")
    assert isinstance(tail, MessagesTail)
    tail.add(MESSAGE[:size])
    assert (tail.usage() is not None) == (MESSAGE[:size].count(b"}") >= 1)


TOOLS = b'"tools":[{"parameters":{"properties":{"usage":{"output_tokens":1,"input_tokens":1}}}}]'
COUNTS = b'"usage": {"input_tokens":7,"input_tokens_details":{"cached_tokens":3},"output_tokens":30000}'
METADATA = b'"metadata":{"usage":"{}",%b}' % b",".join(b'"k%02d":"%b"' % (n, b"v" * 512) for n in range(16))


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 61, 300, 1400, 4095, 4097, 100_000])
@pytest.mark.parametrize("is_stream", [False, True])
def test_counts_before_what_clients_choose(size, is_stream):
    """Of the responses API: hidden reasoning would cost nothing if a client could make them disappear."""
    response = b'{"output":[],%b,%b,"user":null,%b}' % (TOOLS, COUNTS, METADATA)
    if is_stream:
        begun = b'data: {"response":{%b,"usage":null,"metadata":{}}}\n\n' % TOOLS
        deltas = b'data: {"delta":"text"}\n\n' * 100
        response = begun + deltas + b'data: {"response":%b}\n\n' % response
    tail = tail_of("/v1/responses")
    for at in range(0, len(response), size):
        tail.add(response[at : at + size])
    assert tail.usage() == (7, 30000, 3)


@pytest.mark.parametrize("size", range(1, 250, 7))
def test_counts_that_clients_make_up(size):
    """A stream that breaks off has repeated their tools, but has no counts yet."""
    tail = tail_of("/v1/responses")
    begun = b'data: {"response":{%b,"usage":null,"metadata":{}}}\n\ndata: {"delta":"text"}\n\n' % TOOLS
    for at in range(0, len(begun), size):
        tail.add(begun[at : at + size])
    assert tail.usage() is None


@pytest.mark.parametrize("size", range(len(COUNTS)))
def test_counts_of_the_responses_api_that_break_off(size):
    tail = tail_of("/v1/responses")
    tail.add(b"{" + COUNTS[:size])
    assert tail.usage() is None


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


@pytest.mark.parametrize("cut", [BODY.index(USAGE) + each for each in (0, 8, 9, 20, 60, 75)])
async def test_counts_that_a_proxy_divides_among_chunks(gateway, endpoint, cut):
    """Each chunk comes by itself, so that the gateway forwards one before it has the next. Only the name
    `usage` has to be in one piece: forwarding looks for it and keeps nothing else."""
    client = await gateway.connect()
    client.post()
    call = await endpoint.call()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    parts = [chunk(BODY[:2]), chunk(BODY[2:cut]), chunk(BODY[cut:])]
    call.write(head)
    call.write(parts[0])
    await client.head()
    for number, part in enumerate(parts):
        if number:
            call.write(part)
        assert await client.reader.readexactly(len(part)) == part
    call.write(b"0\r\n\r\n")
    assert await client.reader.readexactly(5) == b"0\r\n\r\n"
    tokens = "headgate_gateway_tokens_total"
    assert gateway.metric(tokens, direction="input") == 7
    assert gateway.metric(tokens, direction="output") == 5


async def test_counts_that_break_off_amid_a_stream_end_the_request(gateway, endpoint, eventually):
    """The endpoint is lost: its request is settled, and nothing of it is left in flight."""
    client = await gateway.connect()
    client.post()
    call = await endpoint.call()
    call.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(BODY[:60]))
    await client.head()
    call.reset()
    await eventually(lambda: gateway.settled == 1)
    assert all(load.requests == 0 for pool in gateway.shell.plane.pools.values() for load in pool.loads)
