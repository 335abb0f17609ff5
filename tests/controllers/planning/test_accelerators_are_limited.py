"""Plans keep to the accelerators that there are; important classes come first."""

from __future__ import annotations

import uuid
from typing import Any

from headgate import api

CLASSES = {
    "premium.yaml": "{name: Premium, priority: 1, data: [{model: llama, slo-tpot: 24, slo-ttft: 500}]}",
    "free.yaml": "{name: Free, priority: 10, data: [{model: other, slo-tpot: 24, slo-ttft: 500}]}",
}
A100 = "NVIDIA-A100-PCIE-80GB"


async def test_the_most_important_class_is_satisfied_first(planning: Any) -> None:
    """Case 57: what is left goes to the others, which say that it is not enough."""
    await _two_models(planning)
    async with planning.running():
        await planning.says("OptimizationReady", "True", "OptimizationSucceeded", "free")
        wanted = await _desired(planning, "web")
        assert await _desired(planning, "free") == wanted > 2
        await planning.config("accelerator-limits", {"A100": str(wanted + 1)})
        await planning.plans(1, "free")
        told = await planning.says("OptimizationReady", "True", "OptimizationSucceeded", "free")
        assert "not all requests can be served within the objectives" in told
        assert await _desired(planning, "web") == wanted
        await planning.config("accelerator-limits", {"A100": "many"})
        await planning.tells("OptimizationReady", '"many" is not a number of accelerators', "free")
        await planning.config("accelerator-limits", None)
        await planning.plans(wanted, "free")


async def test_nodes_are_counted_in_limited_mode(planning: Any) -> None:
    """Those that are ready; a change of a Node counts at once. Without the setting, Nodes do not count."""
    await _two_models(planning)
    client = planning.world.client
    name = f"node-{uuid.uuid4().hex[:8]}"
    async with planning.running():
        await planning.says("OptimizationReady", "True", "OptimizationSucceeded", "free")
        wanted = await _desired(planning, "free")
        await client.create_manifest(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": A100}},
            }
        )
        try:
            await _offer(client, name, wanted + 1)
            await planning.configure_classes(CLASSES, WVA_LIMITED_MODE="true")
            await planning.plans(1, "free")
            await _offer(client, name, wanted + 2)
            await planning.plans(2, "free")
            await planning.config("accelerator-limits", {"A100": str(wanted + 1)})
            await planning.plans(1, "free")
        finally:
            await client.delete(api.Node, name, "")
        await planning.config("accelerator-limits", None)
        await planning.tells("OptimizationReady", "it is not known how many accelerators")


async def _two_models(planning: Any) -> None:
    await planning.configure_classes(CLASSES)
    for name in ("web", "free"):
        await planning.world.workload(name)
        await planning.world.server(name, arrivals=1.5, idle_s=None)
    await planning.variant()
    reference = {"name": "service-classes-config", "key": "free.yaml"}
    await planning.variant("free", modelID="other", variantID="other-A100-1", sloClassRef=reference)


async def _offer(client: Any, name: str, count: int) -> None:
    status = {
        "allocatable": {"nvidia.com/gpu": str(count)},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}],
    }
    await client.patch_status(api.Node, name, "", status)


async def _desired(planning: Any, name: str) -> int:
    return int((await planning.get(name)).status.desired_optimized_alloc.num_replicas)
