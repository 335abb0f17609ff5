"""`headgate gateway` serves the routes of a real cluster over Pods at addresses of its Pod network."""

from __future__ import annotations

import os
import signal
import time

import pytest
from traffic import route_to, server


def test_a_route_is_served_and_its_edits_are_followed(
    cluster, namespace, apply, start_engine, gateway, eventually
):
    """After an edit, no request goes to the server that the route named before."""
    assert gateway.ask().status_code == 404
    first, second = start_engine("first"), start_engine("second")
    apply(server("first"), server("second"), route_to("first"))
    eventually(lambda: gateway.ask().status_code == 200)
    assert (first.served(), second.served()) == (1, 0)

    apply(route_to("second"))
    eventually(lambda: gateway.ask().status_code == 200 and second.served() > 0)
    before = first.served()
    assert [gateway.ask().status_code for _ in range(5)] == [200] * 5
    assert first.served() == before

    cluster.kubectl("delete", "modelroute", "route", "-n", namespace)
    eventually(lambda: gateway.ask().status_code == 404)


@pytest.mark.parametrize(("program", "outage_s"), [("etcd", 60.0), ("kube-apiserver", 20.0)])
def test_an_outage_of_the_control_plane_changes_nothing_for_traffic(
    cluster, apply, start_engine, gateway, load, paused, eventually, program, outage_s
):
    """200 requests a second are served by what is known, and the next edit is followed once it is told."""
    engine, other = start_engine("before"), start_engine("after")
    apply(server("before"), server("after"), route_to("before"))
    eventually(lambda: gateway.ask().status_code == 200)
    with paused(program), load(lambda: [gateway.address]) as traffic:
        time.sleep(outage_s)
    assert (traffic.failures, list(traffic.statuses)) == ([], [200])
    assert engine.served() == traffic.requests + 1 > outage_s * 100
    eventually(lambda: cluster.request("/readyz", None).status_code in (200, 401, 403))
    apply(route_to("after"))
    eventually(lambda: gateway.ask().status_code == 200 and other.served() > 0)


def test_a_gateway_that_starts_during_an_outage_is_not_ready(
    cluster, namespace, start_gateway, paused, eventually
):
    """It says so, and becomes ready by itself."""
    with paused("kube-apiserver"):
        late = start_gateway(cluster.kubeconfig, "--namespace", namespace)
        eventually(lambda: late.readiness() == 503)
        assert late.ask().status_code == 503
    eventually(late.is_ready)


def test_a_pod_that_is_not_ready_gets_no_requests(
    cluster, namespace, apply, start_engine, gateway, eventually
):
    engine = start_engine("alone")
    apply(server("alone"), route_to("alone"))
    eventually(lambda: gateway.ask().status_code == 200)
    [container] = cluster.get("pod", engine.pod, "-n", namespace)["status"]["containerStatuses"]
    pid = int(container["containerID"].removeprefix("process://"))
    os.kill(pid, signal.SIGSTOP)
    words = ("--for=condition=Ready=false", "pod", engine.pod, "--timeout=120s")
    cluster.kubectl("wait", *words, "-n", namespace)
    eventually(lambda: gateway.ask().status_code == 503)
    os.kill(pid, signal.SIGCONT)
    eventually(lambda: gateway.ask().status_code == 200)
