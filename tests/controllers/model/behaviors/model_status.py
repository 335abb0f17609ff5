"""How a Model stands: conditions, replicas of its backends, and Events for each turn."""

from __future__ import annotations

import re
import socket

from world_of_models import Behavior, World

SLOW_S = 0.05


async def a_model_becomes_active_and_is_replaced_without_a_gap(world: World) -> None:
    """Conditions and counts, an Event for each turn, and a renamed backend that comes up before the old one
    goes."""
    await world.put(world.backend())
    await world.says("Initialized", "True", "ModelCreating")
    model = await world.settled()
    status = model["status"]
    assert status["observedGeneration"] == 1
    assert status["backendStatuses"] == [{"name": "b", "replicas": 1, "readyReplicas": 1}]
    active = await world.says("Active", "True", "ModelAvailable")
    assert active["message"] == "Model is ready"
    assert (await world.event("ModelAvailable"))["type"] == "Normal"
    await world.ask()
    await world.put(world.backend("other", replicas=2))
    await world.there("deployments", f"{world.name}-other")
    while await world.find("deployments", f"{world.name}-b"):
        await world.pods_asked(world.name, 4)
    model = await world.settled()
    assert model["status"]["observedGeneration"] == 2
    assert model["status"]["backendStatuses"] == [{"name": "other", "replicas": 2, "readyReplicas": 2}]
    assert (await world.ask()).startswith(f"{world.name}-other-")


async def objects_of_others_are_an_error_until_they_are_gone(world: World) -> None:
    """Failed says which, and is cleared again; the generation counts as observed then."""
    name = f"{world.name}-b"
    theirs = {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelServer",
        "metadata": {"name": name},
        "spec": {"inferenceEngine": "vLLM", "workloadSelector": {"matchLabels": {"app": "theirs"}}},
    }
    await world.send("POST", world.path("modelservers"), theirs)
    await world.put(world.backend())
    failed = await world.says("Failed", "True", "ModelAbnormal")
    assert f"ModelServer {name} exists already" in failed["message"]
    assert "observedGeneration" not in await world.status()
    assert (await world.event("ModelAbnormal"))["type"] == "Warning"
    await world.models.delete("modelservers", name)
    cleared = await world.says("Failed", "False", "ModelHealthy")
    assert cleared["lastTransitionTime"] >= failed["lastTransitionTime"]
    model = await world.settled()
    assert model["status"]["observedGeneration"] == 1
    await world.event("ModelHealthy")
    await world.ask()


async def a_download_reports_its_progress(world: World) -> None:
    """In the condition while it runs."""
    weights = world.hub.repositories["org/model"].files
    weights["model.safetensors"] = bytes(40 << 20)
    world.hub.pace_s = SLOW_S
    try:
        await world.put(world.backend())
        await world.says("Active", "False", "Downloading")

        async def tells_percents() -> bool:
            message = (await world.says("Active", "False", "Downloading"))["message"]
            return re.search(r"downloading, 0\.0 of 0\.0 GB \([1-9]\d? %\)", message) is not None

        await world.until(tells_percents)
    finally:
        world.hub.pace_s = 0.0
    await world.settled()
    await world.ask()


async def a_hub_that_does_not_answer_is_told(world: World) -> None:
    """While the download tries again, the condition has the reason."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        unreachable = f"http://127.0.0.1:{closed.getsockname()[1]}"
        await world.put({**world.backend(), "env": [{"name": "HF_ENDPOINT", "value": unreachable}]})

        async def tells_the_reason() -> bool:
            message = (await world.says("Active", "False", "Downloading"))["message"]
            return "downloading; it tries again after a failure: 127.0.0.1: " in message

        await world.until(tells_the_reason)
    await world.put(world.backend())
    await world.settled()


async def a_repository_that_does_not_exist_is_named(world: World) -> None:
    """The cause of a failed download is in the condition and in an Event, until the source is another."""
    await world.put(world.backend(modelURI="hf://org/nowhere"))
    condition = await world.says("Active", "False", "DownloadFailed")
    assert f"backend b: 0 of 1 replicas ready: Pod {world.name}-b-" in condition["message"]
    assert "org/nowhere" in condition["message"]
    assert (await world.event("DownloadFailed"))["type"] == "Warning"

    async def stays_while_it_runs_again() -> bool:
        message = (await world.says("Active", "False", "DownloadFailed"))["message"]
        return "; it runs again" in message

    await world.until(stays_while_it_runs_again)
    await world.put(world.backend())
    await world.settled()
    await world.ask()


async def an_engine_that_ends_is_named(world: World) -> None:
    """With the Pod and the container."""
    await world.put(world.backend(workers=[{"type": "server", "image": "unknown/engine"}]))
    condition = await world.says("Active", "False", "EngineFailing")
    assert f"Pod {world.name}-b-" in condition["message"]
    assert "container engine" in condition["message"]


BEHAVIORS: tuple[Behavior, ...] = (
    a_model_becomes_active_and_is_replaced_without_a_gap,
    objects_of_others_are_an_error_until_they_are_gone,
    a_download_reports_its_progress,
    a_hub_that_does_not_answer_is_told,
    a_repository_that_does_not_exist_is_named,
    an_engine_that_ends_is_named,
)
