"""The objects of a Model: names, references, flags, and what others do to them."""

from __future__ import annotations

import hashlib
from typing import Any

from world_of_models import POLICY, Behavior, World

LABELS = "registry.volcano.sh"


async def objects_have_their_names_and_weights_their_directory(world: World) -> None:
    """Case M1: Deployment and ModelServer NAME-BACKEND, ModelRoute NAME, weights at CACHE/md5(modelURI)."""
    cache = world.site.directory / "cache"
    await world.put(world.backend(cacheURI=f"hostpath://{cache}"))
    await world.says("Active", "True", "ModelAvailable")
    of_backend = f"{world.name}-b"
    assert await world.names("deployments") == {of_backend}
    assert await world.names("modelservers") == {of_backend}
    assert await world.names("modelroutes") == {world.name}
    weights = cache / hashlib.md5(b"hf://org/model").hexdigest()
    assert (weights / "model.safetensors").stat().st_size == 1 << 20
    [engine] = containers(await world.get("deployments", of_backend))
    assert option(engine, "--model") == str(weights)
    uid = (await world.get("models"))["metadata"]["uid"]
    for kind in ("deployments", "modelservers", "modelroutes", "secrets"):
        for each in await world.models.of(uid, kind):
            meta = each["metadata"]
            assert meta["labels"][f"{LABELS}/model-name"] == world.name
            assert meta["labels"][f"{LABELS}/managed-by"] == LABELS
            [owner] = meta["ownerReferences"]
            assert (owner["kind"], owner["uid"], owner["controller"]) == ("Model", uid, True)
    server = await world.get("modelservers", of_backend)
    assert server["spec"]["workloadSelector"]["matchLabels"][f"{LABELS}/backend-name"] == "b"
    assert (await world.ask()).startswith(f"{of_backend}-")
    # A second Model with the same weights finds them.
    requests = len(world.hub.reads("model.safetensors"))
    await world.put(world.backend(cacheURI=f"hostpath://{cache}", replicas=2))
    await world.settled()
    assert len(world.hub.reads("model.safetensors")) == requests


async def settings_become_flags(world: World) -> None:
    """Case M8: true is a bare flag, false has --no- before it, objects are JSON, null leaves a flag out."""
    config = {
        "enable_prefix_caching": True,
        "enable-chunked-prefill": False,
        "max-model-len": 1_000_000,
        "hf-overrides": {"a": [1, "b"]},
        "seed": None,
    }
    await world.put(world.backend(workers=[{"type": "server", "config": config}]))
    await world.settled()
    [engine] = containers(await world.get("deployments", f"{world.name}-b"))
    words = engine["args"]
    at = words.index("--enable-prefix-caching")
    assert words[at + 1 : at + 2] == [] or words[at + 1].startswith("--")
    assert "--no-enable-chunked-prefill" in words
    assert option(engine, "--max-model-len") == "1000000"
    assert option(engine, "--hf-overrides") == '{"a":[1,"b"]}'
    assert "--seed" not in words
    await world.ask()


async def changes_of_others_are_put_back(world: World) -> None:
    """Of what the controller sets; the rest stays as they want it."""
    await world.put(world.backend())
    name = f"{world.name}-b"
    await world.settled()
    [engine] = containers(await world.get("deployments", name))
    path = "/spec/template/spec/containers/0/image"
    change = [{"op": "replace", "path": path, "value": "other"}]
    await world.send("PATCH", world.path("deployments", name), change, "application/json-patch+json")
    await world.patch("deployments", name, {"spec": {"minReadySeconds": 1, "replicas": 3}})
    await world.patch("modelservers", name, {"metadata": {"labels": {f"{LABELS}/managed-by": None}}})
    await world.models.delete("modelroutes", world.name)

    async def is_back() -> bool:
        deployment = await world.get("deployments", name)
        labels = (await world.get("modelservers", name))["metadata"]["labels"]
        spec = deployment["spec"]
        return (
            containers(deployment)[0]["image"] == engine["image"]
            and (spec["replicas"], spec["minReadySeconds"]) == (1, 1)
            and f"{LABELS}/managed-by" in labels
            and world.name in await world.names("modelroutes")
        )

    await world.until(is_back)
    await world.event("PutBack")
    await world.settled()
    await world.ask()


async def an_autoscaler_gets_the_replicas_as_they_are(world: World) -> None:
    """A policy and its binding come, take over the replicas, and are deleted when they are taken out. The
    number is never 1 in between, which a field that nobody owns would become."""
    name, many = f"{world.name}-b", {"minReplicas": 2, "maxReplicas": 4}
    await world.put(world.backend(replicas=2))
    await world.settled()
    await world.put(world.backend(**many, autoscalingPolicy=POLICY))
    binding = await world.there("autoscalingpolicybindings", name)
    await world.there("autoscalingpolicies", name)
    scaling = binding["spec"]["scalingConfiguration"]
    assert (scaling["minReplicas"], scaling["maxReplicas"]) == (2, 4)
    assert scaling["target"]["targetRef"]["name"] == name

    async def is_handed_over() -> bool:
        fields = (await world.get("deployments", name))["metadata"]["managedFields"]
        own = {each["manager"] for each in fields if "f:replicas" in each["fieldsV1"].get("f:spec", {})}
        return "headgate-model" not in own and bool(own)

    await world.until(is_handed_over)
    await world.patch("deployments", name, {"spec": {"replicas": 3}})
    worker = {"type": "server", "config": {"max-model-len": 4096}}
    await world.put(world.backend(**many, autoscalingPolicy=POLICY, workers=[worker]))

    async def is_rolled_out() -> bool:
        deployment = await world.get("deployments", name)
        return option(containers(deployment)[0], "--max-model-len") == "4096"

    await world.until(is_rolled_out)
    await world.settled()
    assert (await world.get("deployments", name))["spec"]["replicas"] == 3
    replicas = {
        each["metadata"]["annotations"]["deployment.kubernetes.io/desired-replicas"]
        for each in (await world.send("GET", f"/apis/apps/v1/namespaces/{world.namespace}/replicasets"))[
            "items"
        ]
    }
    assert replicas <= {"2", "3"}
    await world.put(world.backend(replicas=2))
    await world.gone("autoscalingpolicybindings", name)
    await world.gone("autoscalingpolicies", name)
    await world.settled()
    assert (await world.get("deployments", name))["spec"]["replicas"] == 2


async def one_policy_scales_all_backends(world: World) -> None:
    """Its binding has every backend with its cost; without the policy, both are deleted."""
    scaled = {"maxReplicas": 3, "scalingCost": 10, "scaleToZeroGracePeriod": "30s"}
    backends = [world.backend(each, **scaled) for each in ("cheap", "dear")]
    await world.put(*backends, autoscalingPolicy=POLICY, costExpansionRatePercent=150)
    binding = await world.there("autoscalingpolicybindings", world.name)
    optimizer = binding["spec"]["optimizerConfiguration"]
    assert optimizer["costExpansionRatePercent"] == 150
    targets = {each["target"]["targetRef"]["name"]: each["cost"] for each in optimizer["params"]}
    assert targets == {f"{world.name}-cheap": 10, f"{world.name}-dear": 10}
    await world.put(*(world.backend(each) for each in ("cheap", "dear")))
    await world.gone("autoscalingpolicybindings", world.name)
    await world.gone("autoscalingpolicies", world.name)
    await world.settled()


def containers(deployment: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = deployment["spec"]["template"]["spec"]["containers"]
    return found


def option(container: dict[str, Any], flag: str) -> str:
    """What follows a flag; empty without it."""
    words: list[str] = container.get("args", [])
    return words[words.index(flag) + 1] if flag in words else ""


BEHAVIORS: tuple[Behavior, ...] = (
    objects_have_their_names_and_weights_their_directory,
    settings_become_flags,
    changes_of_others_are_put_back,
    an_autoscaler_gets_the_replicas_as_they_are,
    one_policy_scales_all_backends,
)
