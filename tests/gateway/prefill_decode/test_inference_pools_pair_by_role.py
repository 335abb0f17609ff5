"""An InferencePool whose Pods have roles, with simulated engines that check the connector's protocol."""

import contextlib

import httpx2
import msgspec
import pytest

from headgate import api, routing
from headgate.api import gie_v1
from headgate.simulator.model import PROFILES
from headgate.simulator.server import ServerSettings, listen, running

WORDS = "In the beginning there was a canal, and at its head stood a gate. " * 20
HANDED_OVER = ("prompt sent", "prompt received")
ASKED = {"model": "chat", "prompt": WORDS, "max_tokens": 6}


def pod(role, port, notes):
    labels = {"app": "llm", "llm-d.ai/role": role}
    address = {"headgate.dev/address": f"127.0.0.1:{port}"}
    meta = {"name": role, "namespace": "default", "labels": labels, "annotations": address | notes}
    status = {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    return msgspec.convert({"metadata": meta, "status": status}, api.Pod)


def objects(notes):
    """The pool, and an InferenceModel that gives it a name for its one model."""
    meta = {"name": "llm", "namespace": "default"}
    pool = {
        "metadata": {**meta, "annotations": {"headgate.dev/remote-prefill-tokens": "0"} | notes},
        "spec": {"selector": {"matchLabels": {"app": "llm"}}, "targetPorts": [{"number": 8000}]},
    }
    reference = {"name": "llm", "group": gie_v1.GROUP}
    spec = {"modelName": "chat", "poolRef": reference, "targetModels": [{"name": "m"}]}
    return routing.InferenceObjects(
        pools=[msgspec.convert(pool, gie_v1.InferencePool)],
        models=[msgspec.convert({"metadata": meta, "spec": spec}, api.InferenceModel)],
    )


@pytest.mark.parametrize(
    ("engine", "notes", "shared"),
    [
        ("vllm", {}, False),
        ("vllm", {"headgate.dev/kv-connector": "lmcache"}, True),
        ("sglang", {"headgate.dev/engine": "SGLang"}, False),
    ],
)
async def test_prompts_are_prefilled_by_one_pod_and_answered_by_another(start_gateway, engine, notes, shared):
    """Nothing but labels, and an annotation for another connector or engine; and as pdGroup has it."""
    gateway = await start_gateway(settings={"engine_metrics_enabled": False})
    async with contextlib.AsyncExitStack() as stack:
        pods, addresses = [], []
        for role in ("prefill", "decode"):
            sock, second = listen("127.0.0.1", 0), None
            of_pod = {}
            if engine == "sglang" and role == "prefill":
                second = listen("127.0.0.1", 0)
                of_pod = {"headgate.dev/bootstrap-port": str(second.getsockname()[1])}
            settings = ServerSettings(
                engine=PROFILES["fast"].config,
                models=("m",),
                drain_s=0,
                api=engine,
                role="both" if shared else role,
                check_protocol=True,
            )
            await stack.enter_async_context(running(settings, sock, second))
            port = sock.getsockname()[1]
            addresses.append(f"http://127.0.0.1:{port}")
            pods.append(pod(role, port, of_pod))
        snapshot = routing.translate([], [], pods, (), objects(notes))
        assert snapshot.problems == ()
        gateway.shell.use(snapshot)
        client = await stack.enter_async_context(
            httpx2.AsyncClient(base_url=f"http://127.0.0.1:{gateway.port}", timeout=20, verify=False)
        )
        whole = await client.post("/v1/completions", json=ASKED)
        streamed = await client.post("/v1/completions", json={**ASKED, "stream": True})
        assert (whole.status_code, streamed.status_code) == (200, 200)
        assert (whole.json()["model"], whole.json()["usage"]["completion_tokens"]) == ("chat", 6)
        assert "[DONE]" in streamed.text
        decided = gateway.metric("headgate_gateway_prefill_decisions_total", decision="remote")
        assert decided == 2
        found = [(await client.get(f"{address}/admin/protocol")).json() for address in addresses]
        assert [each["deviations"] for each in found] == [{}, {}]
        if not notes:  # nixl: blocks are named by the one that prefilled, and fetched by the other
            assert [each["seen"].get(what) for each, what in zip(found, HANDED_OVER, strict=True)] == [2, 2]
        await gateway.idle()
