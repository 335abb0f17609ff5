"""`headgate gateway` serves the routes of a real cluster over Pods at addresses of its Pod network."""

from __future__ import annotations

import os
import signal
import time

import pytest


def test_a_route_is_served_and_its_edits_are_followed(
    cluster, namespace, objects, start_engine, gateway, eventually
):
    """After an edit, no request goes to the server that the route named before."""
    assert gateway.ask() == 404
    first, second = start_engine("first"), start_engine("second")
    objects.apply(objects.server("first"), objects.server("second"), objects.route("first"))
    eventually(lambda: gateway.ask() == 200)
    assert (first.served(), second.served()) == (1, 0)

    objects.apply(objects.route("second"))
    eventually(lambda: gateway.ask() == 200 and second.served() > 0)
    before = first.served()
    assert [gateway.ask() for _ in range(5)] == [200] * 5
    assert first.served() == before

    cluster.kubectl("delete", "modelroute", "route", "-n", namespace)
    eventually(lambda: gateway.ask() == 404)


@pytest.mark.parametrize(("program", "outage_s"), [("etcd", 60.0), ("kube-apiserver", 20.0)])
def test_an_outage_of_the_control_plane_changes_nothing_for_traffic(
    cluster, objects, start_engine, gateway, load, paused, eventually, program, outage_s
):
    """200 requests a second are served by what is known, and the next edit is followed once it is told."""
    engine, other = start_engine("before"), start_engine("after")
    objects.apply(objects.server("before"), objects.server("after"), objects.route("before"))
    eventually(lambda: gateway.ask() == 200)
    with paused(program), load(lambda: [gateway.url.removeprefix("http://")]) as traffic:
        time.sleep(outage_s)
    assert (traffic.failures, list(traffic.statuses)) == ([], [200])
    assert engine.served() == traffic.requests + 1 > outage_s * 100
    eventually(lambda: cluster.request("/readyz", None).status_code in (200, 401, 403))
    objects.apply(objects.route("after"))
    eventually(lambda: gateway.ask() == 200 and other.served() > 0)


def test_a_gateway_that_starts_during_an_outage_is_not_ready(cluster, start_gateway, paused, eventually):
    """It says so, and becomes ready by itself."""
    with paused("kube-apiserver"):
        late = start_gateway("late", cluster.kubeconfig)
        eventually(lambda: late.readiness() == 503)
        assert late.ask() == 503
    eventually(lambda: late.readiness() == 200)


def test_a_pod_that_is_not_ready_gets_no_requests(
    cluster, namespace, objects, start_engine, gateway, eventually
):
    engine = start_engine("alone")
    objects.apply(objects.server("alone"), objects.route("alone"))
    eventually(lambda: gateway.ask() == 200)
    [container] = cluster.get("pod", engine.pod, "-n", namespace)["status"]["containerStatuses"]
    pid = int(container["containerID"].removeprefix("process://"))
    os.kill(pid, signal.SIGSTOP)
    cluster.kubectl("wait", "--for=condition=Ready=false", "pod", engine.pod, "-n", namespace)
    eventually(lambda: gateway.ask() == 503)
    os.kill(pid, signal.SIGCONT)
    eventually(lambda: gateway.ask() == 200)
