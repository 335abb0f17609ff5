"""Requests that wait for a start go once an endpoint can serve them, and not before."""

import pytest
from hand_shell import HandShell
from one_plane import Plane

from headgate import routing
from headgate.flow.configuration import Queueing
from headgate.flow.queue import FlowSettings
from headgate.requests import effects, states, way
from headgate.requests.queueing.pool_queue import PoolQueue


class Cold:
    """A pool of endpoints that prefill (even numbers) and decode (odd ones), if there is a connector."""

    def __init__(self, connector):
        self.one = Plane(endpoints=0, connector=connector, start=routing.Start(30.0))
        self.shell = HandShell()
        queueing = Queueing(flow=FlowSettings(is_on=False))
        self.queue = PoolQueue(self.one.plane, self.one.pool, queueing, self.shell, self.one.now)
        self.one.pool.queue = self.queue

    def serve(self, *places):
        self.one.serve(places)
        self.queue.use(self.one.pool, self.one.now)
        self.one.pool.queue = self.queue
        self.shell.look(self.one.now)


def test_endpoints_that_decode_wait_for_those_that_prefill():
    """If they cannot serve alone."""
    cold = Cold("sglang")
    request = cold.one.ask()
    cold.serve(1)
    assert request.life.state == states.QUEUED
    cold.serve(0)
    assert request.life.state == states.QUEUED
    cold.serve(0, 1)
    assert isinstance(request.done[-1], effects.Ask)


@pytest.mark.parametrize("connector", ["nixl", None])
def test_endpoints_that_can_serve_alone_do(connector):
    """The first one that is ready serves."""
    cold = Cold(connector)
    request = cold.one.ask()
    cold.serve(1)
    assert isinstance(request.done[-1], effects.Ask)


def test_an_endpoint_that_cannot_be_reached_is_tried_every_second():
    """So many times, and then the request is rejected."""
    cold = Cold(None)
    request = cold.one.ask()
    cold.serve(1)
    tried = 0
    while request.life.state == states.REACHING:
        tried += 1
        cold.one.report(request, way.connect_failed, "refused")
        cold.shell.look(cold.one.now)
        if request.life.state == states.QUEUED:
            cold.one.now += 1.0
            cold.queue.sweep(cold.one.now)
            cold.shell.look(cold.one.now)
    assert tried == 60
    assert (request.refusal.status, request.refusal.code) == (503, "endpoint_unreachable")
    assert request.life.wait.start_seconds(cold.one.now) == 59.0


def test_another_request_does_not_run_into_the_same():
    """It waits until the endpoint is tried again."""
    cold = Cold(None)
    cold.serve(1)
    first = cold.one.ask()
    assert first.life.state == states.REACHING
    cold.one.report(first, way.connect_failed, "refused")
    second = cold.one.ask()
    cold.shell.look(cold.one.now)
    assert [first.life.state, second.life.state] == [states.QUEUED] * 2
    cold.one.now += 1.0
    cold.queue.sweep(cold.one.now)
    cold.shell.look(cold.one.now)
    assert [first.life.state, second.life.state] == [states.REACHING] * 2
