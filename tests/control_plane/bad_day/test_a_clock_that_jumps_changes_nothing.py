"""Somebody sets the clock of the machine, a day forward or back: nothing that runs is disturbed."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import pytest

DAY_S = 86_400.0


@pytest.fixture
def clock(tmp_path: Path) -> Path:
    """The file that sets the clock of a command."""
    file = tmp_path / "clock"
    file.write_bytes(struct.pack("d", 0.0))
    return file


def _set(clock: Path, offset_s: float) -> None:
    with clock.open("r+b") as file:
        file.write(struct.pack("d", offset_s))


def test_the_gateway_serves_and_follows(
    objects, kubeconfig_of, start_engine, start_gateway, clock, load, eventually
):
    start_engine("engine")
    objects.apply(objects.server("engine"), objects.route("engine"))
    gateway = start_gateway("gateway", kubeconfig_of("gateway"), clock)
    eventually(lambda: gateway.readiness() == 200 and gateway.ask() == 200)
    with load(lambda: [gateway.url.removeprefix("http://")], 50.0) as traffic:
        for number, offset_s in enumerate((DAY_S, -DAY_S, 0.0)):
            _set(clock, offset_s)
            model = f"model-{number}"
            objects.apply(objects.route("engine", name=model, model=model))
            eventually(lambda model=model: gateway.ask(model) == 200)
            assert gateway.readiness() == 200
    assert (traffic.failures, list(traffic.statuses)) == ([], [200])


def test_the_leader_keeps_leading(cluster, namespace, objects, kubeconfig_of, start, clock, eventually):
    """Nobody takes its Lease: a rival goes by how long it has seen no renewal, not by the written times."""
    kubeconfig = kubeconfig_of("controller")
    words = ("controller", "--kubeconfig", kubeconfig, "--namespace", namespace)
    words += ("--leader-elect", f"{namespace}/headgate-controller", "--lease-s", "6")

    def lease() -> dict[str, object]:
        found = cluster.get("leases", "-n", namespace)["items"]
        return found[0]["spec"] if found else {}

    start("shifted", *words, clock=clock)
    holder = eventually(lambda: lease().get("holderIdentity"))
    start("rival", *words)
    for offset_s in (DAY_S, -DAY_S, 0.0):
        _set(clock, offset_s)
        began, renewals = time.monotonic(), set()
        while time.monotonic() < began + 8:
            renewals.add(lease()["renewTime"])
            assert lease()["holderIdentity"] == holder
            time.sleep(0.2)
        assert len(renewals) > 2
    assert lease()["leaseTransitions"] == 0
