"""A queue alone: time is an argument, and the queue looks only when its alarm rings."""

import math

import pytest
from hand_shell import HandShell

from headgate.flow.capacity import CapacitySettings
from headgate.flow.configuration import Queueing
from headgate.flow.queue import FlowSettings
from headgate.requests import effects, way
from headgate.requests.queueing.pool_queue import PoolQueue

ONE_AT_A_TIME = CapacitySettings(detector="concurrency-detector", max_requests=1)


@pytest.fixture
def shell():
    return HandShell()


@pytest.fixture
def queue(plane, shell):
    """Of a pool with two endpoints, each of which has room for one request."""
    queueing = Queueing(flow=FlowSettings(ttl_s=10.0), capacity=ONE_AT_A_TIME)
    queue = plane.pool.queue = PoolQueue(plane.plane, plane.pool, queueing, shell, plane.now)
    return queue


def test_who_waits_goes_when_the_alarm_rings(plane, queue, shell):
    """Not before, though there is room already."""
    first, _, held = (plane.ask() for _ in range(3))
    assert (held.life.phase, queue.held) == ("queued", 1)
    shell.look(plane.now)
    assert shell.due_at > plane.now
    assert not shell.is_woken
    plane.report(first, way.client_gone)
    assert shell.is_woken
    assert held.asked is None
    shell.look(plane.now)
    assert held.asked is not None
    assert (queue.held, shell.due_at, shell.told) == (0, math.inf, ["held", "dispatched"])


def test_the_time_to_live_ends_at_the_time_of_the_alarm(plane, queue, shell):
    """To the moment; the refusal says why."""
    held = [plane.ask() for _ in range(3)][-1]
    shell.look(plane.now)
    assert shell.due_at == plane.now + 10.0
    plane.now = shell.due_at
    shell.look(plane.now)
    assert isinstance(held.done[-1], effects.Refuse)
    assert (held.refusal.status, held.refusal.code) == (429, "queue_timeout")
    assert held.life.wait.seconds(plane.now) == 10.0
    assert shell.told == ["held", "rejected-ttl-expired"]


def test_a_pool_without_endpoints_is_reported_once(plane, queue, shell):
    """And again when it has one."""
    plane.serve(())
    queue.use(plane.pool, plane.now)
    plane.pool.queue = queue
    waiting = [plane.ask() for _ in range(2)]
    for _ in range(2):
        shell.look(plane.now)
    plane.serve((0,))
    queue.use(plane.pool, plane.now)
    plane.pool.queue = queue
    assert shell.is_woken
    shell.look(plane.now)
    assert waiting[0].asked is not None
    assert shell.told == ["held", "wanted", "held", "starves", "dispatched", "recovers"]


def test_a_pool_that_is_gone_refuses_all(plane, queue, shell):
    """Those that wait, and those that were on their way to it."""
    held, late = [plane.ask() for _ in range(3)][-1], plane.ask()
    queue.remove(plane.now)
    assert [each.refusal.status for each in (held, late)] == [503, 503]
    assert queue.held == 0
