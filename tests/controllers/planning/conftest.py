"""Planning on an embedded API server, with Pods and a gateway that the tests play."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headgate import api, cluster
from headgate.controllers.autoscaling import AutoscalingController, AutoscalingSettings
from headgate.controllers.pages import add_planning_figures
from headgate.controllers.planning import PlanningController, PlanningSettings
from headgate.controllers.planning.prometheus_loads import PrometheusLoads
from headgate.telemetry import Registry

sys.path.insert(0, str(Path(__file__).parent.parent / "autoscaling" / "behaviors"))

from world_of_scaling import World, eventually, world_of

COSTS = {
    "A100": '{"device": "NVIDIA-A100-PCIE-80GB", "cost": "40.00"}',
    "H100": '{"device": "NVIDIA-H100-80GB-HBM3", "cost": "100.0"}',
}
CLASSES = {
    "premium.yaml": (
        "{name: Premium, priority: 1, data: [{model: llama, slo-tpot: 24, slo-ttft: 500},"
        " {model: slow, slo-tpot: 24, slo-ttft: 500}]}"
    ),
}
LABELS = ("variant_name", "namespace", "accelerator_type", "variant_id")
SETTINGS = PlanningSettings(gather_s=0.05, look_s=0.1)


@dataclass
class Planning:
    """A namespace with its ConfigMaps, and what the tests ask of it."""

    world: World
    controller: PlanningController | None = None

    async def config(self, name: str, data: Mapping[str, str] | None) -> None:
        """Write a ConfigMap, or delete it."""
        client, namespace = self.world.client, self.world.namespace
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace},
            "data": dict(data or {}),
        }
        with contextlib.suppress(cluster.NotFound):
            await client.delete(api.ConfigMap, name, namespace)
        if data is not None:
            await client.create_manifest(manifest)

    async def configure(self, **settings: str) -> None:
        """All ConfigMaps; keywords are settings."""
        await self.configure_classes(CLASSES, **settings)

    async def configure_classes(self, classes: Mapping[str, str], **settings: str) -> None:
        """The same, with other classes."""
        await self.config("accelerator-unit-costs", COSTS)
        await self.config("service-classes-config", classes)
        await self.config("workload-variant-autoscaler-variantautoscaling-config", settings)

    async def variant(
        self,
        name: str = "web",
        accelerator: str = "A100",
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """Create a VariantAutoscaling, or replace its spec."""
        parameters = spec.pop("decode", {"alpha": "20.58", "beta": "0.41"})
        whole = {
            "modelID": "llama",
            "variantID": f"llama-{accelerator}-1",
            "accelerator": accelerator,
            "acceleratorCount": 1,
            "sloClassRef": {"name": "service-classes-config", "key": "premium.yaml"},
            "variantProfile": {
                "maxBatchSize": 4,
                "perfParms": {"decodeParms": parameters, "prefillParms": {"gamma": "5.2", "delta": "0.1"}},
            },
            **spec,
        }
        await self.world.put(api.VariantAutoscaling.resource, name, whole, annotations=annotations)

    async def get(self, name: str = "web") -> api.VariantAutoscaling:
        return await self.world.client.get(api.VariantAutoscaling, name, self.world.namespace)

    async def plans(self, replicas: int, name: str = "web") -> api.VariantAutoscaling:
        """The object once so many replicas should run."""

        async def is_so() -> bool:
            status = (await self.get(name)).status
            desired = status.desired_optimized_alloc if status is not None else None
            return desired is not None and desired.num_replicas == replicas

        await eventually(is_so)
        return await self.get(name)

    async def says(self, kind: str, status: str, reason: str, name: str = "web") -> str:
        """The object gets this condition; returns its message."""

        async def found() -> api.Condition | None:
            known = (await self.get(name)).status
            return next((each for each in known.conditions if each.type == kind), None) if known else None

        async def is_so() -> bool:
            said = await found()
            return said is not None and (said.status, said.reason) == (status, reason)

        await eventually(is_so)
        said = await found()
        assert said is not None
        return said.message

    async def tells(self, kind: str, text: str, name: str = "web") -> str:
        """The object gets this condition with a text in its message, which is returned."""

        async def found() -> list[str]:
            status = (await self.get(name)).status
            conditions = status.conditions if status is not None else []
            return [each.message for each in conditions if each.type == kind and text in each.message]

        async def is_so() -> bool:
            return bool(await found())

        await eventually(is_so)
        return (await found())[0]

    def series(self, metric: str) -> dict[tuple[str, ...], float]:
        """The series of a metric, by the values of LABELS."""
        assert self.controller is not None
        registry = Registry()
        add_planning_figures(registry, self.controller.figures)
        page = registry.page("")[0].decode()
        found = {}
        for line in page.splitlines():
            if line.startswith(f"{metric}{{"):
                written, _, value = line.partition("{")[2].rpartition("} ")
                labels = dict(each.split("=", 1) for each in written.split(","))
                found[tuple(labels[each].strip('"') for each in LABELS)] = float(value)
        return found

    @contextlib.asynccontextmanager
    async def running(
        self, prometheus_of: Any = PrometheusLoads, **changed: Any
    ) -> AsyncIterator[PlanningController]:
        """Controllers that run inside the block, and follow the gateway of the world."""
        world = self.world
        scaling = AutoscalingController(
            world.client,
            settings=AutoscalingSettings(
                period_s=0.3, signals_s=0.2, gateways=(f"http://127.0.0.1:{world.port}",)
            ),
        )
        settings = msgspec.structs.replace(SETTINGS, namespace=world.namespace, **changed)
        self.controller = PlanningController(
            world.client, scaling, settings=settings, prometheus_of=prometheus_of
        )
        ready = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(scaling.run()),
                tasks.create_task(self.controller.run(ready.set)),
            ]
            await ready.wait()
            yield self.controller
            for task in running:
                task.cancel()


@pytest.fixture
async def planning(client: cluster.Client) -> AsyncIterator[Planning]:
    async def new_namespace() -> str:
        name = f"test-{uuid.uuid4().hex[:10]}"
        await client.create_manifest({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return name

    async with world_of(client, new_namespace, makes_pods=True) as world:
        yield Planning(world)
