"""Somebody sets the clock of the machine, a day forward or back: nothing that runs is disturbed."""

from __future__ import annotations

import time

from traffic import route_to, server

DAY_S = 86_400.0


def test_the_gateway_serves_and_follows(
    apply, namespace, kubeconfig_of, start_engine, start_gateway, clock, load, eventually
):
    start_engine("engine")
    apply(server("engine"), route_to("engine"))
    gateway = start_gateway(kubeconfig_of("gateway"), "--namespace", namespace, program=clock.program)
    eventually(lambda: gateway.is_ready() and gateway.ask().status_code == 200)
    with load(lambda: [gateway.address], 50.0) as traffic:
        for number, offset_s in enumerate((DAY_S, -DAY_S, 0.0)):
            clock.set(offset_s)
            model = f"model-{number}"
            apply(route_to("engine", name=model, model=model))
            eventually(lambda model=model: gateway.ask(model).status_code == 200)
            assert gateway.is_ready()
    assert (traffic.failures, list(traffic.statuses)) == ([], [200])


def test_the_leader_keeps_leading(cluster, namespace, kubeconfig_of, start, clock, eventually):
    """Nobody takes its Lease: a rival goes by how long it has seen no renewal, not by the written times."""
    kubeconfig = kubeconfig_of("controller")
    words = ("controller", "--kubeconfig", kubeconfig, "--namespace", namespace)
    words += ("--leader-elect", f"{namespace}/headgate-controller")

    def lease() -> dict[str, object]:
        found = cluster.get("leases", "-n", namespace)["items"]
        return found[0]["spec"] if found else {}

    start("shifted", *words, program=clock.program)
    holder = eventually(lambda: lease().get("holderIdentity"))
    start("rival", *words)
    for offset_s in (DAY_S, -DAY_S, 0.0):
        clock.set(offset_s)
        began, renewals = time.monotonic(), set()
        while time.monotonic() < began + 8 or len(renewals) < 3:
            now = lease()
            renewals.add(now["renewTime"])
            assert now["holderIdentity"] == holder
            time.sleep(0.2)
    assert lease()["leaseTransitions"] == 0
