"""The open loop in virtual time: when requests are sent, and from when their times count."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from headgate.loadtest import Limits, Tally, conversations
from headgate.loadtest.plan.conversations import Prompts
from headgate.loadtest.running import Run
from headgate.loadtest.sending import Ask
from headgate.traffic import traces
from headgate.traffic.traces import TimedRequest

InVirtualTime = Callable[[Any], Any]


class Server:
    """Takes a time for each request, and notes when it was sent and when it was due."""

    def __init__(self, loop: asyncio.AbstractEventLoop, takes_s: float) -> None:
        self._loop = loop
        self._takes_s = takes_s
        self.sent: list[tuple[float, float]] = []
        self.said: list[list[str]] = []
        self.fails: set[int] = set()
        self.cancelled = 0

    async def send(self, ask: Ask) -> str | None:
        self.sent.append((self._loop.time() - ask.began_s, ask.due_s - ask.began_s))
        self.said.append(list(ask.said))
        try:
            await asyncio.sleep(self._takes_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return None if ask.turn.number in self.fails else f"response {ask.turn.number}"


def request(at_s: float, think_s: float | None = None, tokens: int = 8) -> TimedRequest:
    return TimedRequest(at_s=at_s, think_s=think_s, prompt_tokens=tokens, output_tokens=2)


def run_of(
    requests: Sequence[TimedRequest],
    loop: asyncio.AbstractEventLoop,
    server: Server,
    limits: Limits,
    tally: Tally,
) -> Run:
    return Run(conversations(requests), Prompts("s"), server.send, tally, limits, loop.time)


def ran(
    in_virtual_time: InVirtualTime,
    requests: Sequence[TimedRequest],
    takes_s: float,
    limits: Limits | None = None,
    fails: Sequence[int] = (),
    stop_at_s: float | None = None,
) -> tuple[Server, Tally]:
    async def story(loop: asyncio.AbstractEventLoop) -> tuple[Server, Tally]:
        server, tally, stop = Server(loop, takes_s), Tally(), asyncio.Event()
        server.fails.update(fails)
        if stop_at_s is not None:
            loop.call_later(stop_at_s, stop.set)
        await run_of(requests, loop, server, limits or Limits(), tally).run(stop)
        return server, tally

    found: tuple[Server, Tally] = in_virtual_time(story)
    return found


def test_a_slow_server_does_not_slow_arrivals_down(in_virtual_time: InVirtualTime) -> None:
    """Each request is sent when it is due, although no response has come yet."""
    server, _ = ran(in_virtual_time, [request(at_s) for at_s in (0.0, 0.25, 3.0, 3.0, 10.5)], takes_s=100.0)
    assert server.sent == [(at_s, at_s) for at_s in (0.0, 0.25, 3.0, 3.0, 10.5)]


def test_a_trace_is_replayed_at_its_times_and_faster(in_virtual_time: InVirtualTime) -> None:
    """A line of a trace for each request; at twice the speed, all intervals are half as long."""
    lines = [
        b'{"timestamp": %d, "input_length": 600, "output_length": 5, "hash_ids": [1, %d]}' % (ms, ms)
        for ms in (0, 1500, 1500, 4000, 9250)
    ]
    read = list(traces.requests("t.jsonl", lines, traces.Mooncake()))
    for factor in (1.0, 2.0):
        import random

        requests = traces.arrange(read, traces.Arrivals(rate_scale=factor), random.Random(1))
        server, _ = ran(in_virtual_time, requests, takes_s=3.0)
        assert [sent for sent, _ in server.sent] == pytest.approx(
            [at_s / factor for at_s in (0.0, 1.5, 1.5, 4.0, 9.25)]
        )


def test_requests_that_wait_in_the_client_count_from_when_they_were_due(
    in_virtual_time: InVirtualTime,
) -> None:
    """With a place for one, the third of three simultaneous requests is sent after two responses."""
    server, tally = ran(in_virtual_time, [request(1.0)] * 3, takes_s=2.0, limits=Limits(max_in_flight=1))
    assert server.sent == [(1.0, 1.0), (3.0, 1.0), (5.0, 1.0)]
    assert tally.dropped == 0


def test_requests_are_dropped_if_told_so(in_virtual_time: InVirtualTime) -> None:
    """And counted: the load was less than planned."""
    server, tally = ran(
        in_virtual_time,
        [request(at_s) for at_s in (0.0, 0.5, 1.0, 2.5)],
        takes_s=2.0,
        limits=Limits(max_in_flight=2, drops=True),
    )
    assert [sent for sent, _ in server.sent] == [0.0, 0.5, 2.5]
    assert tally.dropped == 1
    assert [(each.number, each.outcome) for each in tally.records] == [(2, "dropped")]


def test_turns_wait_for_the_response_before_them(in_virtual_time: InVirtualTime) -> None:
    """And for the pause; they send the whole conversation again."""
    turns = [request(1.0, tokens=8), request(1.0, 3.0, tokens=14), request(2.0)]
    server, _ = ran(in_virtual_time, turns, takes_s=2.0)
    assert server.sent == [(1.0, 1.0), (2.0, 2.0), (6.0, 6.0)]
    first, _, second = server.said
    assert second[:2] == [first[0], "response 0"]
    assert len(second[2].split()) == 14 - 8 - 2


def test_a_conversation_ends_with_a_failure(in_virtual_time: InVirtualTime) -> None:
    """There is nothing to say next."""
    turns = [request(0.0), request(0.0, 1.0), request(0.0, 1.0)]
    server, _ = ran(in_virtual_time, turns, takes_s=1.0, fails=[1])
    assert len(server.sent) == 2


def test_a_run_can_be_stopped(in_virtual_time: InVirtualTime) -> None:
    """What is in flight then ends, and nothing more is sent."""
    server, _ = ran(in_virtual_time, [request(float(at)) for at in range(100)], takes_s=5.0, stop_at_s=10.5)
    assert len(server.sent) == 11
    assert server.cancelled == 5


def test_conversations_share_the_places_with_all_others(in_virtual_time: InVirtualTime) -> None:
    """A pause takes no place."""
    requests = [request(0.0), request(0.0, 5.0), request(1.0), request(6.5)]
    server, _ = ran(in_virtual_time, requests, takes_s=1.0, limits=Limits(max_in_flight=1))
    assert server.sent == [(0.0, 0.0), (1.0, 1.0), (6.0, 6.0), (7.0, 6.5)]
