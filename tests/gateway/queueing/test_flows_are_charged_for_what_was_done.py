"""A flow is charged for the work that an engine did; if that is unknown, for the estimate."""

import pytest

from headgate.requests import charging
from headgate.requests.reported import Reported, Usage
from headgate.requests.usage import counts
from headgate.scheduling import Request

REQUEST = Request(model="m", prompt_tokens=1000, output_tokens=100)


@pytest.mark.parametrize(
    ("counted", "work"),
    [
        (Usage(1200, 50, cached=1100), 150),
        (Usage(1200, 50, cached=0), 1250),
        (Usage(1000, 50), 250),
        (None, 250),
    ],
)
def test_what_an_engine_does_not_say_of_its_cache_is_believed(counted, work):
    """Of 1000 tokens 800 were believed to be there: whoever says nothing does not make them work."""
    assert charging.taken(REQUEST, 300, counted, 50).work == work


def test_of_a_request_that_did_not_wait_nothing_is_believed():
    """It was taken for all of its prompt."""
    assert charging.taken(REQUEST, 1100, None, 100).work == 1100


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
TOKEN = chunk(b'data: {"choices":[{"index":0,"delta":{"content":"water"}}]}\n\n')
LAST = chunk(b'data: {"choices":[{"index":0,"delta":{"content":"gate!"}}]}\n\n')
FAIR = {"ENABLE_FAIRNESS_SCHEDULING": "true", "FAIRNESS_MAX_CONCURRENT": "1"}
A = {"x_headgate_fairness_id": "a"}


@pytest.fixture
async def first(start_pool):
    """A stream of the flow "a" with a prompt of 8 tokens, by Kthena's fairness; its pool, client and call."""
    pool = await start_pool(queue_kthena_environment=FAIR)
    client = await pool.ask("x" * 31, stream=True, **A)
    return pool, client, await pool.endpoint.call()


async def used(pool, eventually):
    """What "a" has used, a token of output for two, once its first request is over."""
    await eventually(lambda: pool.gateway.settled == 1)
    await pool.ask("runs", **A)
    await pool.endpoint.call()
    await pool.wait("waits", **A)
    (pools,) = (await pool.page("/debug/flow")).values()
    (flow,) = pools[0]["queue"]["bands"][0]["flows"]
    return flow["standing"]


async def test_a_client_that_cuts_its_stream_off_pays_for_what_came(first, eventually):
    """The prompt, and a token for each of 25 events."""
    pool, client, call = first
    call.write(HEAD + TOKEN * 24 + LAST)
    await client.reader.readuntil(b"gate!")
    client.close()
    assert await used(pool, eventually) == "58 used in 300 s"


async def test_a_client_that_leaves_before_the_answer_pays_for_its_prompt(first, eventually):
    """An engine had it."""
    pool, client, _ = first
    client.close()
    assert await used(pool, eventually) == "8 used in 300 s"


async def test_an_endpoint_that_breaks_off_is_paid_for_what_came(first, eventually):
    """Counts that it gave amid its answer are no more than a beginning."""
    pool, client, call = first
    told = chunk(b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1}}\n\n')
    call.write(HEAD + told + TOKEN * 9 + LAST)
    await client.reader.readuntil(b"gate!")
    call.reset()
    await client.rest()
    assert await used(pool, eventually) == "31 used in 300 s"


@pytest.mark.parametrize("status", ["400 Bad Request", "500 Internal Server Error"])
async def test_an_endpoint_that_refuses_is_paid_nothing(first, eventually, status):
    """It has done no work."""
    pool, client, call = first
    call.answer(b'{"error":{}}', status)
    await client.response()
    assert await used(pool, eventually) == "0 used in 300 s"


def test_no_more_than_the_prompt_can_have_been_cached():
    """Whatever an engine says: among several workers, prompts and what was cached of them are summed up."""
    counted = counts(Reported(prompt_tokens=10, completion_tokens=5, cache_read_input_tokens=99_999))
    taken = charging.taken(REQUEST, 300, counted, 5)
    assert (taken.prompt_tokens, taken.cached_tokens, taken.output_tokens) == (10, 10, 5)
