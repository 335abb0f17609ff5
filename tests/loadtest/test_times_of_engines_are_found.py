"""Simulated engines whose step costs are known."""

import asyncio

import pytest

from headgate.loadtest import Limits, Slo
from headgate.traffic.traces import TimedRequest

STEP_S, TOKEN_S = 0.02, 0.0005
"""As in conftest.py."""
LATE_S = 0.03
"""Of the request that was held up least, beside an engine in the same process: a busy machine delays some."""


def request(at_s: float, prompt: int = 100, output: int = 10, **more: object) -> TimedRequest:
    return TimedRequest(at_s=at_s, prompt_tokens=prompt, output_tokens=output, **more)  # type: ignore[arg-type]


async def test_first_tokens_and_pauses_take_as_long_as_the_engines_steps(engine, measured) -> None:
    """One request at a time: a step with the prefill, then a step for each token."""
    async with engine() as url:
        tally = await measured(url, [request(0.5 * at) for at in range(4)])
    assert (tally.requests, tally.errors) == (4, {})
    prompt = tally.prompt_tokens / 4
    assert prompt == pytest.approx(100, abs=8)  # the template of a chat
    assert tally.output_tokens == 40
    first_s = STEP_S + prompt * TOKEN_S
    assert tally.ttft.percentile(0.5) >= first_s - 0.001
    assert tally.ttft.least_s <= first_s + LATE_S
    assert tally.itl.percentile(0.5) == pytest.approx(STEP_S, rel=0.25)
    assert tally.tpot.percentile(0.5) >= 0.75 * STEP_S
    assert tally.tpot.least_s <= 1.25 * STEP_S
    assert tally.itl.count == 4 * 9
    total_s = first_s + 9 * STEP_S
    assert tally.latency.percentile(0.5) >= total_s - 0.005
    assert tally.latency.least_s <= total_s + 2 * LATE_S


@pytest.mark.parametrize(
    ("api", "is_streamed"), [("completions", True), ("chat", False), ("completions", False)]
)
async def test_other_forms_are_measured(engine, measured, api: str, is_streamed: bool) -> None:
    """A response that is not streamed has a latency, and no time of a first token."""
    async with engine() as url:
        tally = await measured(url, [request(0.0, output=5)], api=api, is_streamed=is_streamed)
    assert (tally.requests, tally.errors) == (1, {})
    assert tally.output_tokens == 5
    assert tally.latency.most_s >= STEP_S * 5
    assert tally.ttft.count == tally.tpot.count == int(is_streamed)


async def test_a_wait_in_the_client_is_no_omission(engine, measured) -> None:
    """Three requests at once, one in flight at a time: the last counts the responses before it."""
    async with engine() as url:
        tally = await measured(url, [request(0.0, output=6)] * 3, limits=Limits(max_in_flight=1))
    one_s = STEP_S + 100 * TOKEN_S + 5 * STEP_S
    ttft_s = sorted(each.ttft_s for each in tally.records)
    late_s = sorted(each.late_s for each in tally.records)
    assert ttft_s[2] >= 2 * one_s
    assert late_s[0] < one_s
    assert late_s[2] >= 2 * one_s - 0.01


async def test_goodput_counts_requests_within_their_objectives(engine, measured) -> None:
    """Long prompts miss the first, long pauses the second, and errors miss all."""
    requests = [request(0.0), request(0.4, prompt=1600), request(1.5), request(1.9, prompt=10**6)]
    async with engine() as url:
        tally = await measured(url, requests, slo=Slo(ttft_s=0.6, tpot_s=10 * STEP_S))
        strict = await measured(url, [request(0.0)], slo=Slo(tpot_s=STEP_S / 4))
    assert tally.good == 2
    assert list(tally.errors) == ["http 413"] or list(tally.errors) == ["http 400"]
    assert strict.good == 0


async def test_conversations_find_their_beginnings_in_the_cache(engine, measured) -> None:
    """The second turn sends the first and its response again, word for word."""
    turns = [
        request(0.0, prompt=320, output=32, session=1),
        request(0.0, prompt=400, output=4, session=1, think_s=0.0),
    ]
    async with engine() as url:
        tally = await measured(url, turns)
    second = next(each for each in tally.records if each.number == 1)
    assert second.cached_tokens is not None
    assert second.cached_tokens > 320
    assert second.prompt_tokens == pytest.approx(400, abs=16)


async def test_endpoints_are_counted(engine, measured) -> None:
    """By the header of an engine, or of Headgate."""
    async with engine(pod_name="engine-7") as url:
        tally = await measured(url, [request(0.0, output=2)] * 3)
    assert {name: each.requests for name, each in tally.endpoints.items()} == {"engine-7": 3}
    assert tally.endpoints["engine-7"].ttft.count == 3


async def test_a_stop_ends_requests_and_counts_them_apart(engine, measured, eventually_shown) -> None:
    """Interrupted requests are no errors, and the engine is free again."""
    stop = asyncio.Event()

    async def stop_once_one_was_served(url: str) -> None:
        await eventually_shown(url, rb"^vllm:request_success_total\S* 1(\.0)?$")
        await eventually_shown(url, rb"^vllm:num_requests_running\S* 1(\.0)?$")
        stop.set()

    async with engine() as url, asyncio.TaskGroup() as stopping:
        stopping.create_task(stop_once_one_was_served(url))
        tally = await measured(url, [request(0.0, output=3), request(0.1, output=10_000)], stop=stop)
        await eventually_shown(url, rb"^vllm:num_requests_running\S* 0(\.0)?$")
    assert (tally.requests, tally.interrupted, tally.errors) == (1, 1, {})
