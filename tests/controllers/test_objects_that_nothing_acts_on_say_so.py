"""A kind that is stored while nothing acts on it says so when it is written, and in the status.

Every kind may be acted on: a VariantAutoscaling stands for one that is not.
"""

import asyncio

import pytest

from headgate import api
from headgate.api import admission
from headgate.api.unattended import UNATTENDED
from headgate.controllers.unattended import KINDS, UnattendedObjects

KIND = api.VariantAutoscaling
TOLD = "nothing plans replicas by it yet"
PARAMETERS = {"decodeParms": {"alpha": "20.58"}, "prefillParms": {"gamma": "5.2"}}
MANIFEST = {
    "apiVersion": KIND.resource.api_version,
    "kind": KIND.resource.kind,
    "metadata": {"name": "it", "namespace": "default"},
    "spec": {
        "modelID": "m",
        "variantID": "m-A100-1",
        "accelerator": "A100",
        "acceleratorCount": 1,
        "sloClassRef": {"name": "classes", "key": "premium.yaml"},
        "variantProfile": {"perfParms": PARAMETERS, "maxBatchSize": 4},
    },
}


@pytest.fixture
def unattended(monkeypatch):
    """Nothing acts on the kind."""
    monkeypatch.setitem(UNATTENDED, (KIND.resource.group, KIND.resource.kind), TOLD)


async def conditions(client) -> list[api.Condition]:
    status = (await client.get(KIND, "it", "default")).status
    return status.conditions if status is not None else []


def test_every_such_kind_is_known_to_both():
    """The table of admission and the kinds that the controller follows agree."""
    assert {(kind.resource.group, kind.resource.kind) for kind in KINDS} == set(UNATTENDED)


def test_whoever_writes_one_is_warned(unattended):
    """On create and on a change of its spec, but not when somebody writes its status."""
    told = f"kind: {TOLD}"
    assert told in admission.check(MANIFEST).warnings
    assert told not in admission.check(MANIFEST | {"status": {}}, MANIFEST).warnings


async def test_its_status_says_so(client, kit, unattended):
    """Once for each generation, beside the conditions of others, and with an event for `kubectl describe`."""
    await client.create_manifest(MANIFEST)
    theirs = {
        "type": "Audited",
        "status": "True",
        "reason": "Passed",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await client.patch_status(KIND, "it", "default", {"conditions": [theirs]})
    running = asyncio.create_task(UnattendedObjects(client, kinds=[KIND]).run())

    async def is_said():
        found = {each.type: each for each in await conditions(client)}
        ready = found.get("Ready")
        return ready is not None and found.keys() == {"Ready", "Audited"}

    try:
        await kit.eventually(is_said)
        [ready] = [each for each in await conditions(client) if each.type == "Ready"]
        assert (ready.status, ready.reason, ready.message) == ("False", "NotImplemented", TOLD)
        assert ready.observed_generation == 1
        version = (await client.get(KIND, "it", "default")).metadata.resource_version

        async def is_told():
            events = await client.list(api.Event, "default")
            return any(
                (each.involved_object.kind, each.reason) == (KIND.resource.kind, "NotImplemented")
                for each in events
            )

        await kit.eventually(is_told)
        assert (await client.get(KIND, "it", "default")).metadata.resource_version == version
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
