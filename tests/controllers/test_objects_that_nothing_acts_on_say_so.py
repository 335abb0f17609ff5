"""A kind that is stored while nothing acts on it says so when it is written, and in the status."""

import asyncio

import pytest

from headgate import api
from headgate.api import admission
from headgate.api.unattended import UNATTENDED
from headgate.controllers import ControllersConfig, run_controllers
from headgate.controllers.unattended import KINDS

PARAMETERS = {"decodeParms": {"alpha": "20.58"}, "prefillParms": {"gamma": "5.2"}}
SPECS = {
    "VariantAutoscaling": {
        "modelID": "m",
        "variantID": "m-A100-1",
        "accelerator": "A100",
        "acceleratorCount": 1,
        "sloClassRef": {"name": "classes", "key": "premium.yaml"},
        "variantProfile": {"perfParms": PARAMETERS, "maxBatchSize": 4},
    },
}


def manifest(kind: type) -> dict:
    resource = kind.resource
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "it", "namespace": "default"},
        "spec": SPECS[resource.kind],
    }


async def conditions(client, kind) -> list[api.Condition]:
    status = (await client.get(kind, "it", "default")).status
    return status.conditions if status is not None else []


def test_every_such_kind_is_known_to_both():
    """The table of admission and the kinds that the controller follows agree."""
    assert {(kind.resource.group, kind.resource.kind) for kind in KINDS} == set(UNATTENDED)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.kind)
def test_whoever_writes_one_is_warned(kind):
    """On create and on a change of its spec, but not when somebody writes its status."""
    told = f"kind: {UNATTENDED[kind.resource.group, kind.resource.kind]}"
    obj = manifest(kind)
    assert told in admission.check(obj).warnings
    assert told not in admission.check(obj | {"status": {}}, obj).warnings


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.kind)
async def test_its_status_says_so(client, kit, kind, apiserver_running):
    """Once for each generation, beside the conditions of others, and with an event for `kubectl describe`."""
    await client.create_manifest(manifest(kind))
    theirs = {
        "type": "Audited",
        "status": "True",
        "reason": "Passed",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await client.patch_status(kind, "it", "default", {"conditions": [theirs]})
    stop = asyncio.Event()
    config = ControllersConfig(kubeconfig=apiserver_running.kubeconfig)
    running = asyncio.create_task(run_controllers(config, stop))

    async def is_said():
        found = {each.type: each for each in await conditions(client, kind)}
        ready = found.get("Ready")
        return ready is not None and found.keys() == {"Ready", "Audited"}

    try:
        await kit.eventually(is_said)
        [ready] = [each for each in await conditions(client, kind) if each.type == "Ready"]
        assert (ready.status, ready.reason) == ("False", "NotImplemented")
        assert ready.message == UNATTENDED[kind.resource.group, kind.resource.kind]
        assert ready.observed_generation == 1
        version = (await client.get(kind, "it", "default")).metadata.resource_version

        async def is_told():
            events = await client.list(api.Event, "default")
            return any(
                (each.involved_object.kind, each.reason) == (kind.resource.kind, "NotImplemented")
                for each in events
            )

        await kit.eventually(is_told)
        assert (await client.get(kind, "it", "default")).metadata.resource_version == version
    finally:
        stop.set()
        await running
