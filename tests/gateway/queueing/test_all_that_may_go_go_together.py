"""F22: freed capacity is used by all queued requests at once, without a timer, in slices."""

import asyncio

import pytest

from headgate import api, routing, scheduling
from headgate.dataplane.records.recorder import Recorder
from headgate.dataplane.trust import Networks, Peer
from headgate.gateway import GatewaySettings
from headgate.gateway.request import ParsedHead, Request
from headgate.gateway.shell import Shell
from headgate.requests.decision import Decision
from headgate.requests.life import Life
from headgate.requests.queueing import pool_queue
from headgate.requests.received import ReceivedBody
from headgate.telemetry import Registry

KEY = api.ObjectRef("ModelServer", "default", "pool")
ENDPOINT = routing.Endpoint("default/pod", "127.0.0.1", 1)
SETTINGS = GatewaySettings().replace(
    queue_detector="concurrency-detector", queue_max_in_flight=1_000_000, queue_fairness_ids_from="anyone"
)


class Held:
    """A request as its queue sees it; it notes when it was sent."""

    sent: list["Held"]

    def __init__(self, plane, number: int, now: float) -> None:
        headers = [(b"x-headgate-fairness-id", b"flow-%d" % (number % 50))]
        peer = Peer("", Networks(()))
        head = ParsedHead(b"POST", b"/v1/completions", headers, False, peer, b"g")
        request = Request(head, b"", True, now)
        decision = Decision()
        decision.scheduled = scheduling.Request(model="m", prompt_tokens=100, output_tokens=100)
        self.life = Life(plane, request, ReceivedBody(request.path), decision)

    def admitted(self, pool, now) -> None:
        assert pool.loads
        self.sent.append(self)

    def turn_away(self, refusal, now) -> None:
        raise AssertionError(refusal)


@pytest.fixture
async def shell():
    shell = Shell(SETTINGS, Recorder(Registry(), None), asyncio.get_running_loop())
    yield shell
    await shell.close()


def serve(shell, *endpoints):
    shell.use(routing.Snapshot(pools={KEY: routing.Pool(key=KEY, endpoints=endpoints)}))
    return shell.plane.pools[KEY].queue


async def test_five_thousand_that_waited_for_an_endpoint(shell):
    """They go as fast as they can be sent; the event loop has its turn after each few of them."""
    Held.sent = []
    queue = serve(shell)
    waiting = [Held(shell.plane, number, shell.now()) for number in range(5000)]
    for each in waiting:
        queue.hold(each, shell.now())
    assert queue.held == shell.queues.held == 5000
    assert {(kind.flow, size) for kind, size in queue.kinds.sizes()} == {
        (f"flow-{n}", (100, 0)) for n in range(50)
    }
    assert serve(shell, ENDPOINT) is queue
    turns = 0
    while queue.held:
        before = len(Held.sent)
        await asyncio.sleep(0)
        turns += 1
        assert len(Held.sent) - before <= pool_queue.AT_ONCE
    assert len(Held.sent) == len({id(each) for each in Held.sent}) == 5000
    assert turns <= 5000 / pool_queue.AT_ONCE + 3
    assert shell.queues.held == 0
    assert not list(queue.kinds.sizes())
    queue._flow.validate()


async def test_one_that_cannot_be_sent_stops_nobody(shell, caplog):
    """The log says why; the others go."""
    Held.sent = []
    queue = serve(shell)
    waiting = [Held(shell.plane, number, shell.now()) for number in range(3)]
    for each in waiting:
        queue.hold(each, shell.now())
    told = []
    waiting[1].admitted = lambda pool, now: 1 / 0
    waiting[1].turn_away = lambda refusal, now: told.append(refusal)
    serve(shell, ENDPOINT)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert Held.sent == [waiting[0], waiting[2]]
    assert [refusal.status for refusal in told] == [500]
    assert "ZeroDivisionError" in caplog.text


async def test_one_that_cannot_be_told_keeps_the_news_from_nobody(shell, caplog):
    """All that have no turn any more are told, and count no more."""
    queue = serve(shell)
    waiting = [Held(shell.plane, number, shell.now()) for number in range(3)]
    told = []
    for each in waiting:
        each.turn_away = lambda refusal, now: told.append(refusal)
        queue.hold(each, shell.now())
    waiting[1].turn_away = lambda refusal, now: 1 / 0
    queue.close(shell.now())
    assert [refusal.code for refusal in told] == ["shutting_down"] * 2
    assert queue.held == 0
    assert "ZeroDivisionError" in caplog.text


async def test_room_at_an_endpoint_is_for_all_of_its_pools(shell):
    """What ends for one pool makes room for those that wait for another with the same endpoint."""
    Held.sent = []
    shell.change(SETTINGS.replace(queue_max_in_flight=1))
    other = api.ObjectRef("ModelServer", "default", "other")
    pools = [routing.Pool(key=key, endpoints=(ENDPOINT,)) for key in (KEY, other)]
    shell.use(routing.Snapshot(pools={pool.key: pool for pool in pools}))
    booking = shell.plane.pools[other].loads[0].book(10, 10, shell.now())
    held = Held(shell.plane, 1, shell.now())
    shell.plane.pools[KEY].queue.hold(held, shell.now())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not Held.sent
    booking.end(shell.now())
    shell.plane.pools[other].queue.room_made()
    await asyncio.sleep(0)
    assert Held.sent == [held]


async def test_settings_that_are_none_of_its_own_leave_a_queue_alone(shell):
    """What flows have had is remembered."""
    queue = serve(shell, ENDPOINT)
    capacity = queue.room.capacity
    shell.change(SETTINGS.replace(clients_keep_alive_s=1.0))
    assert queue.room.capacity is capacity
    shell.change(SETTINGS.replace(queue_ttl_s=1.0))
    assert queue.room.capacity is not capacity
    assert queue.settings.ttl_s == 1.0
