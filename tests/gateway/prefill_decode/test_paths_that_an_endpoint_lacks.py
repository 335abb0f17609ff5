"""In either phase, a 404 from an endpoint that serves other requests concerns only that path and model."""

import asyncio

import pytest

CONNECTORS = ("http", "nixl", "sglang")
CHAT, OTHER = "/v1/chat/completions", "/v1/completions"
BODIES = {CHAT: None, OTHER: {"model": "m", "prompt": "hi", "max_tokens": 20}}


def engine(answer, *paths):
    """One that knows these paths alone, as an older version in the midst of a rollout."""

    def behave(call):
        if call.target in paths:
            answer(call)
        else:
            call.answer(b'{"detail":"Not Found"}', "404 Not Found")

    return behave


def answer_soon(call):
    """Unless the request was taken back by then."""
    loop = asyncio.get_running_loop()
    loop.call_later(0.02, lambda: call.transport.is_closing() or call.answer(b"{}"))


async def ask_both(some, chat, times):
    """Chats and completions in turn, all of which are served."""
    for _ in range(times):
        for path, body in BODIES.items():
            assert (await some.gateway.ask(body or chat(), path=path)).status == 200
        some.gateway.move(1.01)


def asked(endpoint, path):
    return [call.target for call in endpoint.calls].count(path)


@pytest.mark.parametrize("connector", CONNECTORS)
async def test_one_that_prefills_keeps_its_other_requests(split, chat, handed_over, connector):
    """It is asked for what it lacks once, and has not failed."""
    some = await split(connector, prefill=2, decode=1)
    some.prefill[0].behave = engine(handed_over, CHAT)
    some.prefill[1].behave = engine(handed_over, CHAT, OTHER)
    some.decode[0].behave = answer_soon
    await ask_both(some, chat, 12)
    assert asked(some.prefill[0], OTHER) == 1
    assert asked(some.prefill[0], CHAT) >= 3
    assert some.load(some.prefill[0]).failures == 0


async def test_the_endpoint_that_decodes_prefills_what_no_other_can(split, chat, handed_over):
    """Nobody is asked in vain again."""
    some = await split("nixl")
    some.prefill[0].behave = engine(handed_over, CHAT)
    some.decode[0].behave = answer_soon
    await ask_both(some, chat, 12)
    assert asked(some.prefill[0], OTHER) == 1
    assert asked(some.prefill[0], CHAT) == 12
    assert some.load(some.prefill[0]).failures == 0


@pytest.mark.parametrize("connector", CONNECTORS)
async def test_one_that_decodes_keeps_its_other_requests(split, chat, handed_over, connector):
    """Both phases are judged alike."""
    some = await split(connector, prefill=1, decode=2)
    some.prefill[0].behave = handed_over
    some.decode[0].behave = engine(answer_soon, CHAT)
    some.decode[1].behave = engine(answer_soon, CHAT, OTHER)
    await ask_both(some, chat, 12)
    assert asked(some.decode[0], OTHER) == 1
    assert asked(some.decode[0], CHAT) >= 3
    assert some.load(some.decode[0]).failures == 0


async def test_a_path_that_all_lack_by_now_is_asked_for_all_the_same(split, chat, handed_over):
    """A pair that serves only together is asked, and the client gets the endpoint's own 404."""
    some = await split("sglang", prefill=2)
    some.prefill[0].behave = engine(handed_over, CHAT)
    some.prefill[1].behave = engine(handed_over, CHAT, OTHER)
    some.decode[0].behave = answer_soon
    await ask_both(some, chat, 6)
    some.use(prefill=some.prefill[:1])
    response = await some.gateway.ask(BODIES[OTHER], path=OTHER)
    assert (response.status, response.body) == (404, b'{"detail":"Not Found"}')
