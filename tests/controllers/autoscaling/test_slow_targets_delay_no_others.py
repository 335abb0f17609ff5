"""Targets of one binding are read at the same time, each with a deadline of its own."""

from __future__ import annotations

import asyncio
import time

import msgspec

from headgate import api
from headgate.api.kthena_registry import ScalingConfiguration
from headgate.autoscaling import MetricTarget, Policy
from headgate.controllers.autoscaling.measuring import Measured, Meter
from headgate.controllers.autoscaling.observing import Found
from headgate.controllers.autoscaling.settings import AutoscalingSettings
from headgate.controllers.autoscaling.targets import Named, Target
from headgate.controllers.autoscaling.workloads import ScalableDeployment

DEADLINE_S = 2.0
TARGETS = 20


def found(number: int, port: int) -> Found:
    """A target whose only Pod is at this port."""
    spec = {"target": {"targetRef": {"name": "d"}, "metricEndpoint": {"port": port}}}
    spec |= {"minReplicas": 1, "maxReplicas": 9}
    workload = msgspec.convert({"metadata": {"name": f"d{number}"}}, ScalableDeployment)
    named = Named("", msgspec.convert(spec, ScalingConfiguration), "apps", workload.place)
    ready = [api.Condition(type="Ready", status="True")]
    pod = api.Pod(
        metadata=api.ObjectMeta(name=f"p{number}", uid=f"u{number}"),
        status=api.PodStatus(pod_ip="127.0.0.1", conditions=ready),
    )
    return Found.of(Target(named, workload), [pod], 1)


async def test_all_together_take_one_deadline() -> None:
    """One after another, they would take twenty."""
    ended = asyncio.Event()

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    meter = Meter(AutoscalingSettings(deadline_s=DEADLINE_S), None)
    measured, began = Measured(), time.monotonic()
    targets = [found(number, port) for number in range(TARGETS)]
    assert await meter.measure(measured, Policy((MetricTarget("load", 1.0),)), targets, 1000.0)
    assert time.monotonic() - began < DEADLINE_S * TARGETS / 2
    assert len(measured.problems) == TARGETS
    ended.set()
    server.close()
    await meter.aclose()
