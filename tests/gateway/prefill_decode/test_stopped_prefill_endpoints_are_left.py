"""Prompts leave a prefill endpoint soon after its process was stopped."""

import asyncio
import json

import pytest

from headgate.observe.endpoint_requests import UNANSWERED_S

LONG_S = 2.0


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """Looks for silence a hundred times a second."""
    monkeypatch.setattr("headgate.gateway.shell.SWEEP_INTERVAL_S", 0.01)
    monkeypatch.setattr("headgate.observe.model_list.SOONEST_S", 0.05)


class Engine:
    """Without a metrics page."""

    def __init__(self, serve):
        self.serve = serve
        self.is_stopped = False
        self.requests = []

    def __call__(self, call):
        if call.method == "POST":
            self.requests.append(call)
        if self.is_stopped:
            return
        if call.target == "/v1/models":
            call.answer(json.dumps({"data": [{"id": "m"}]}).encode())
        elif call.method == "GET":
            call.answer(b"", "404 Not Found")
        else:
            self.serve(call)


@pytest.fixture
def start(split, handed_over, eventually):
    """Starts a pool of two endpoints that prefill and one that decodes; the gateway has heard of all."""

    async def make(connector, known=50, settings=None, **pool):
        quick = {"engine_metrics_interval_s": 0.05, "engine_metrics_max_per_s": 1000}
        quick["engine_metrics_timeout_s"] = 600  # a query of a stopped endpoint stays open
        some = await split(connector, prefill=2, settings=quick | (settings or {}), **pool)
        engines = [Engine(handed_over), Engine(handed_over), Engine(lambda call: call.answer(b"{}"))]
        for endpoint, engine in zip((*some.prefill, *some.decode), engines, strict=True):
            endpoint.behave = engine
        shell = some.gateway.shell
        shell.scraper.start()
        (state,) = shell.plane.pools.values()
        for _ in range(known):
            state.evidence.prefills.note(0.1)
        await eventually(lambda: all(shell.scraper.watch(load).heard_at > 0 for load in state.loads))
        return some, engines

    return make


def is_asking(some):
    """Whether a query of the first endpoint that prefills is open."""
    return some.gateway.is_asking(some.load(some.prefill[0]))


async def test_another_prefills(start, chat, eventually):
    """After three times the 99th percentile of what prefills take, two seconds at least."""
    some, (stopped, other, _) = await start("nixl")
    stopped.is_stopped = True
    asking = asyncio.create_task(some.gateway.ask(chat()))
    await eventually(lambda: stopped.requests and is_asking(some))
    some.gateway.move(UNANSWERED_S)
    await asyncio.sleep(0.1)
    assert not asking.done()
    some.gateway.move(LONG_S)
    assert (await asking).status == 200
    assert len(other.requests) == 1
    assert some.failed("prefill_hang") == 1
    assert some.gateway.metric("headgate_gateway_ejections_total", reason="hang") == 1
    assert some.load(some.prefill[0]).ejection.until > some.gateway.shell.now()
    assert some.load(some.prefill[0]).failures == 1
    assert some.load(some.decode[0]).failures == 0


async def test_a_pair_that_is_asked_at_once_is_asked_anew(start, chat, eventually):
    """Nothing of the answer has come: the endpoint that decodes waits for the prompt in vain."""
    some, (stopped, other, decode) = await start("sglang")
    decode.serve = lambda call: None
    stopped.is_stopped = True
    asking = asyncio.create_task(some.gateway.ask(chat()))
    await eventually(lambda: stopped.requests and decode.requests and is_asking(some))
    decode.serve = lambda call: call.answer(b"{}")
    some.gateway.move(LONG_S)
    assert (await asking).status == 200
    assert len(other.requests) == 1
    assert some.load(some.decode[0]).failures == 0


async def test_who_answers_questions_is_only_slow(start, chat, eventually):
    """A long queue looks the same but for that."""
    some, (slow, other, _) = await start("nixl")
    serve, slow.serve = slow.serve, lambda call: None
    asking = asyncio.create_task(some.gateway.ask(chat()))
    await eventually(lambda: slow.requests and not is_asking(some))
    some.gateway.move(5 * LONG_S)
    await asyncio.sleep(0.5)
    serve(slow.requests[0])
    assert (await asking).status == 200
    assert (len(other.requests), some.failed("prefill_hang")) == (0, 0)


async def test_without_a_retry_to_spare_it_goes_on_waiting(start, chat, eventually):
    """It is not given up for a suspicion; the endpoint is ejected all the same."""
    some, (stopped, other, _) = await start("nixl", attempts=0)
    stopped.is_stopped = True
    asking = asyncio.create_task(some.gateway.ask(chat()))
    await eventually(lambda: stopped.requests and is_asking(some))
    some.gateway.move(LONG_S)
    await eventually(lambda: some.gateway.metric("headgate_gateway_ejections_total", reason="hang"))
    stopped.serve(stopped.requests[0])
    assert (await asking).status == 200
    assert other.requests == []


async def test_the_bound_is_learned_from_prefills(start, chat):
    """Each that succeeds tells how long one takes."""
    some, _ = await start("nixl", known=0)
    (state,) = some.gateway.shell.plane.pools.values()
    for _ in range(50):
        assert state.evidence.long_prefill_s(30.0, some.gateway.shell.now()) == 30.0
        assert (await some.gateway.ask(chat())).status == 200
    some.gateway.move(1.1)
    assert state.evidence.long_prefill_s(30.0, some.gateway.shell.now()) == LONG_S
