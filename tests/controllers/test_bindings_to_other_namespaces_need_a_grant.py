"""An AutoscalingPolicyBinding that names a target of another namespace says whether that allows it."""

import asyncio

import msgspec
import pytest
import yaml

from headgate import api
from headgate.api import reference_grants
from headgate.controllers import ControllersConfig, grants, run_controllers

BINDING = {
    "apiVersion": api.AutoscalingPolicyBinding.resource.api_version,
    "kind": "AutoscalingPolicyBinding",
    "metadata": {"name": "it", "namespace": "default"},
    "spec": {
        "policyRef": {"name": "it"},
        "scalingConfiguration": {
            "target": {"targetRef": {"kind": "Deployment", "name": "web", "namespace": "far"}},
            "minReplicas": 1,
            "maxReplicas": 3,
        },
    },
}
POLICY = {
    "apiVersion": api.AutoscalingPolicy.resource.api_version,
    "kind": "AutoscalingPolicy",
    "metadata": {"name": "it", "namespace": "default"},
    "spec": {"metrics": [{"metricName": "waiting", "targetValue": "10"}]},
}


@pytest.fixture
def binding() -> api.AutoscalingPolicyBinding:
    return msgspec.convert(BINDING, api.AutoscalingPolicyBinding)


async def test_it_is_refused_until_a_grant_is_there(client, kit, apiserver_running):
    """The condition has the manifest of the grant. Both versions of it are served."""
    for manifest in ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}}, POLICY, BINDING):
        await client.create_manifest(manifest)
    stop = asyncio.Event()
    config = ControllersConfig(kubeconfig=apiserver_running.kubeconfig)
    running = asyncio.create_task(run_controllers(config, stop))

    async def resolved() -> api.Condition | None:
        status = (await client.get(api.AutoscalingPolicyBinding, "it", "default")).status
        said = status.conditions if status is not None else []
        return next((each for each in said if each.type == "ResolvedRefs"), None)

    async def is_refused():
        said = await resolved()
        return said is not None and (said.status, said.reason) == ("False", "RefNotPermitted")

    async def is_resolved():
        said = await resolved()
        return said is not None and said.status == "True"

    try:
        await kit.eventually(is_refused)
        said = await resolved()
        assert said is not None
        manifest = yaml.safe_load(said.message[said.message.index("apply ") + len("apply ") :])
        await client.create_manifest(manifest)
        await kit.eventually(is_resolved)
        name = manifest["metadata"]["name"]
        newer = await client.get(reference_grants.ReferenceGrantV1, name, "far")
        assert newer.spec.to[0].name == "web"
        await client.delete(reference_grants.ReferenceGrant, name, "far")
        await kit.eventually(is_refused)
    finally:
        stop.set()
        await running


def test_a_target_of_its_own_namespace_is_no_question(binding):
    """Unless it was one before."""
    own = msgspec.convert(BINDING | {"metadata": {"name": "it", "namespace": "far"}}, type(binding))
    assert grants.finding(own, grants.Grants()) is None
    said = api.ObservedStatus(conditions=[api.Condition(type="ResolvedRefs", status="False")])
    found = grants.finding(msgspec.structs.replace(own, status=said), grants.Grants())
    assert found is not None
    assert found.holds


@pytest.mark.parametrize(
    ("known", "told"),
    [
        (grants.Grants(is_installed=False), "install the definitions of the Gateway API"),
        (
            grants.Grants(namespaces=("default",)),
            "namespace far is none of those that",
        ),
    ],
)
def test_why_a_grant_cannot_be_known_is_reported(binding, known, told):
    found = grants.finding(binding, known)
    assert found is not None
    assert (found.holds, found.reason) == (False, "RefNotPermitted")
    assert "spec.scalingConfiguration.target.targetRef: " in found.message
    assert told in found.message
