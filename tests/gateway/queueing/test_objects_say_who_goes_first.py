"""Requests leave the queue in the order of priority in InferenceModels and InferenceObjectives."""

import msgspec
import pytest

from headgate import api, routing
from headgate.api import gie_v1

OBJECTIVES = {"urgent": 7, "batch": -10}


def _metadata(name, **more):
    return {"name": name, "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z", **more}


def _reference():
    return {"name": "pool", "group": gie_v1.GROUP}


@pytest.fixture
async def pool(pool, endpoint):
    """With an InferenceModel of each criticality and two InferenceObjectives, before one endpoint."""
    pod = {"metadata": _metadata("pod", labels={"app": "llm"}), "status": {"podIP": "127.0.0.1"}}
    pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    pod["metadata"]["annotations"] = {"headgate.dev/address": f"127.0.0.1:{endpoint.port}"}
    spec = {"selector": {"matchLabels": {"app": "llm"}}, "targetPorts": [{"number": 8000}]}
    objects = routing.InferenceObjects(
        pools=[msgspec.convert({"metadata": _metadata("pool"), "spec": spec}, gie_v1.InferencePool)],
        models=[
            msgspec.convert(
                {
                    "metadata": _metadata(name.lower()),
                    "spec": {"modelName": name, "criticality": name, "poolRef": _reference()},
                },
                api.InferenceModel,
            )
            for name in ("Critical", "Default", "Sheddable")
        ],
        objectives=[
            msgspec.convert(
                {"metadata": _metadata(name), "spec": {"priority": priority, "poolRef": _reference()}},
                api.InferenceObjective,
            )
            for name, priority in OBJECTIVES.items()
        ],
    )
    pool.gateway.shell.use(routing.translate([], [], [msgspec.convert(pod, api.Pod)], (), objects))
    return pool


async def _wait(pool, eventually, model, prompt, **headers):
    """A request that is held."""
    held = pool.queue.held
    client = await pool.gateway.connect()
    client.post({"model": model, "prompt": prompt}, **headers)
    await eventually(lambda: pool.queue.held == held + 1)
    return client


async def test_the_order_is_that_of_the_objects(pool, endpoint, eventually):
    """An objective goes before the criticality of the model; within one priority who came first."""
    runs = await pool.gateway.connect()
    runs.post({"model": "Default", "prompt": "runs"})
    first = await endpoint.call()
    asked = [
        ("Critical", "batch", {"x-llm-d-inference-objective": "batch"}),
        ("Sheddable", "sheddable", {}),
        ("Default", "default", {}),
        ("Critical", "critical", {}),
        ("Default", "unknown", {"x-gateway-inference-objective": "nobody-knows"}),
        ("Sheddable", "urgent", {"X-Gateway-Inference-Objective": "urgent"}),
    ]
    for model, prompt, headers in asked:
        await _wait(pool, eventually, model, prompt, **headers)
    first.answer(b"{}")
    order = [await pool.served() for _ in asked]
    assert order == ["urgent", "critical", "default", "unknown", "sheddable", "batch"]


@pytest.mark.parametrize(
    ("waits", "comes", "reason"),
    [
        ("Sheddable", "Default", "evicted-queue-pressure"),
        ("Default", "Critical", "evicted-priority"),
        ("Critical", "Critical", None),
    ],
)
async def test_the_less_important_make_room(pool, endpoint, eventually, waits, comes, reason):
    """Sheddable ones first, and critical ones for nobody."""
    shell = pool.gateway.shell
    shell.change(shell.settings.replace(queue_max_requests=1))
    runs = await pool.gateway.connect()
    runs.post({"model": "Default", "prompt": "runs"})
    await endpoint.call()
    held = await _wait(pool, eventually, waits, "waits")
    comer = await pool.gateway.connect()
    comer.post({"model": comes, "prompt": "comes"})
    refused = await (held if reason else comer).response()
    assert refused.status == 429
    assert refused.header("x-headgate-dropped-reason") == (reason or "rejected-saturated")
    assert pool.queue.held == 1
