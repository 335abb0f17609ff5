"""Each type of backend runs, and answers through the gateway."""

from __future__ import annotations

from typing import Any

from world_of_models import Behavior, World

MOONCAKE = {"kv_connector": "MooncakeConnectorV1", "kv_role": "kv_both"}
NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}


async def prefill_and_decode_answer_together(world: World) -> None:
    """Case M6, and that a request goes to one Pod of each: the kvConnector and pdGroup of the ModelServer."""
    for connector, transfer in (("mooncake", MOONCAKE), ("nixl", NIXL)):
        config = {"kv-transfer-config": transfer}
        workers = [
            {"type": "prefill", "config": config},
            {"type": "decode", "config": config, "replicas": 2},
        ]
        await world.put(world.backend(type="vLLMDisaggregated", workers=workers))
        model = await world.settled()
        server = await world.get("modelservers", f"{world.name}-b")
        assert server["spec"]["kvConnector"] == {"type": connector}
        group = server["spec"]["workloadSelector"]["pdGroup"]
        assert group["groupKey"] == "modelinfer.volcano.sh/group-name"
        assert {*group} == {"groupKey", "prefillLabels", "decodeLabels"}
        assert await world.names("deployments") == {f"{world.name}-b-prefill", f"{world.name}-b-decode"}
        [told] = model["status"]["backendStatuses"]
        assert (told["replicas"], told["readyReplicas"]) == (1, 1)
        assert (await world.ask()).startswith(f"{world.name}-b-decode-")
        # A prompt that is worth it is prefilled apart.
        await world.ask(prompt="Hello " * 4000)
        prefill = [each for each in await world.list("pods") if "-prefill-" in each["metadata"]["name"]]
        assert sum([await world.finished(each) for each in prefill]) > 0


async def sglang_answers(world: World) -> None:
    """A backend of SGLang, with a flag of its own."""
    worker = {"type": "server", "config": {"context-length": 8192}}
    await world.put(world.backend(type="SGLang", workers=[worker]))
    await world.settled()
    server = await world.get("modelservers", f"{world.name}-b")
    assert server["spec"]["inferenceEngine"] == "SGLang"
    assert (await world.ask()).startswith(f"{world.name}-b-")


async def mindie_answers(world: World) -> None:
    """MindIE gets its settings in a file; that it cannot load adapters is a condition."""
    worker = {"type": "server", "config": {"maxSeqLen": 8192}}
    adapters = [{"name": "law", "artifactURL": "hf://org/adapter"}]
    await world.put(world.backend(type="MindIE", workers=[worker], loraAdapters=adapters))
    await world.settled()
    assert (await world.ask()).startswith(f"{world.name}-b-")
    supported = await world.says("Supported", "False", "NotSupported")
    assert "spec.backends[0].loraAdapters: MindIE cannot load adapters" in supported["message"]
    await world.put(world.backend(type="MindIE", workers=[worker]))

    async def is_over() -> bool:
        return not [each for each in (await world.status())["conditions"] if each["type"] == "Supported"]

    await world.until(is_over)


async def the_coordinator_of_mindie_answers(world: World) -> None:
    """All roles of a disaggregated MindIE run, and only the coordinator gets requests."""
    roles = ("controller", "coordinator", "prefill", "decode")
    table = {"name": "GLOBAL_RANK_TABLE_FILE_PATH", "value": "/ranks/global.json"}
    workers = [{"type": role} for role in roles]
    await world.put(world.backend(type="MindIEDisaggregated", workers=workers, env=[table]))
    await world.settled()
    assert await world.names("deployments") == {f"{world.name}-b-{role}" for role in roles}
    assert (await world.ask()).startswith(f"{world.name}-b-coordinator-")


async def a_worker_of_several_pods_answers(world: World) -> None:
    """As a LeaderWorkerSet, with Ray or without, whose leaders get the requests; the number of groups follows
    the Model."""
    split = {"vLLM": {"tensor-parallel-size": 2}, "SGLang": {"tp-size": 2}}
    backends = [
        world.backend(kind.lower(), type=kind, workers=[{"type": "server", "pods": 2, "config": config}])
        for kind, config in split.items()
    ]
    await world.put(*backends)
    model = await world.settled()
    names = {f"{world.name}-{kind.lower()}" for kind in split}
    assert await world.names("leaderworkersets") == names
    assert await world.names("deployments") == set()
    assert await world.names("pods") == {f"{name}-0{rest}" for name in names for rest in ("", "-1")}
    assert ready(model) == {"vllm": 1, "sglang": 1}
    asked = {*await world.pods_asked(world.name, 24)}
    assert asked == {f"{name}-0" for name in names}
    more = {**backends[0], "minReplicas": 2, "maxReplicas": 2}
    await world.put(more)
    model = await world.settled()
    assert ready(model) == {"vllm": 2}
    assert await world.names("pods") == {f"{world.name}-vllm-{rest}" for rest in ("0", "0-1", "1", "1-1")}
    await world.ask()


def ready(model: dict[str, Any]) -> dict[str, int]:
    """Ready replicas by backend."""
    return {each["name"]: each["readyReplicas"] for each in model["status"]["backendStatuses"]}


BEHAVIORS: tuple[Behavior, ...] = (
    prefill_and_decode_answer_together,
    sglang_answers,
    mindie_answers,
    the_coordinator_of_mindie_answers,
    a_worker_of_several_pods_answers,
)
