"""After any edit, the data that a gateway derives from its snapshot equals data computed from scratch."""

import asyncio
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import api, routing
from headgate.dataplane.records.recorder import Recorder
from headgate.gateway import GatewaySettings, model_list
from headgate.gateway.shell import Shell
from headgate.requests.destinations import destinations
from headgate.telemetry import Registry

NAMES = ["a", "b", "c"]


def a_route(rng, name, made):
    spec = {
        "modelName": rng.choice(["m", "n", "o"]),
        "loraAdapters": rng.sample(["m", "n", "p"], rng.randint(0, 2)),
        "rules": [
            {"targetModels": [{"modelServerName": rng.choice(NAMES), "weight": rng.randint(0, 1)}]}
            for _ in range(rng.randint(0, 1))
        ],
    }
    if rng.random() < 0.5:
        spec["rateLimit"] = {"inputTokensPerUnit": rng.randint(1, 2), "unit": "minute"}
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"{made}",
        "creationTimestamp": rng.choice(TIMES),
    }
    return msgspec.convert({"metadata": metadata, "spec": spec}, api.ModelRoute)


TIMES = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"]


def a_server(name):
    spec = {"inferenceEngine": "vLLM", "workloadSelector": {"matchLabels": {"app": name}}}
    metadata = {"name": name, "namespace": "default", "creationTimestamp": TIMES[0]}
    return msgspec.convert({"metadata": metadata, "spec": spec}, api.ModelServer)


def listed(shell):
    models = json.loads(shell.services.models.body())["data"]
    return [(model["id"], model["created"]) for model in models]


def limits(shell):
    return {
        ref: (limit.uid, limit.written, [account.budget.limit for account in limit.accounts()])
        for ref, limit in shell.plane.routes.limits.by_route.items()
    }


async def check(rng, edits):
    loop = asyncio.get_running_loop()
    recorder = Recorder(Registry(), None)
    shell, translator = Shell(GatewaySettings(), recorder, loop), routing.Translator()
    for made in range(edits):
        name = rng.choice(NAMES)
        kind = rng.choice(["ModelRoute", "ModelRoute", "ModelServer"])
        obj = a_route(rng, name, made) if kind == "ModelRoute" else a_server(name)
        translator.put(api.ObjectRef(kind, "default", name), obj if rng.random() < 0.7 else None)
        if rng.random() < 0.6:
            shell.use(translator.snapshot(), translator.step if rng.random() < 0.7 else None)
    shell.use(snapshot := translator.snapshot(), translator.step)
    fresh = Shell(GatewaySettings(), Recorder(Registry(), None), loop)
    fresh.use(snapshot)
    assert shell.plane.destinations == destinations(snapshot, shell.plane.pools)
    assert listed(shell) == listed(fresh)
    assert limits(shell) == limits(fresh)
    assert shell.plane.pools.keys() == fresh.plane.pools.keys()
    assert all(shell.plane.pools[key].pool is pool for key, pool in snapshot.pools.items())
    assert all(shell.plane.pools[key].queue is not None for key in snapshot.pools)
    names = recorder._live, fresh.recorder._live
    assert vars(names[0]) == vars(names[1])
    await shell.close()
    await fresh.close()


@given(st.randoms(use_true_random=True), st.integers(1, 20))
def test_any_edits_end_where_a_new_gateway_begins(rng, edits):
    """Destinations, the list of models, limits, pools and the names of series."""
    asyncio.run(check(rng, edits))


@pytest.fixture
def gateway_of_many(gateway, monkeypatch):
    """A gateway with 1,000 models, and how many entries of its list of models were written since."""
    translator, count = routing.Translator(), []
    entry = model_list._entry
    monkeypatch.setattr(model_list, "_entry", lambda *given: count.append(1) or entry(*given))
    for place in range(1000):
        put(translator, place, f"m{place}")
    gateway.shell.use(translator.snapshot())
    count.clear()
    return gateway, translator, count


def put(translator, place, model):
    metadata = {"name": f"r{place}", "namespace": "default", "creationTimestamp": TIMES[0]}
    made = msgspec.convert({"metadata": metadata, "spec": {"modelName": model, "rules": []}}, api.ModelRoute)
    translator.put(api.ObjectRef("ModelRoute", *made.metadata.key), made)


async def get(gateway, path):
    client = await gateway.connect()
    client.send(f"GET {path} HTTP/1.1\r\nhost: g\r\n\r\n".encode())
    return await client.response()


async def test_a_model_is_looked_up_without_the_list(gateway_of_many):
    """GET of one model, and of all, writes no entry again; an edit writes that of the edited route."""
    gateway, translator, count = gateway_of_many
    assert (await get(gateway, "/v1/models/m7")).json["id"] == "m7"
    first, second = [await get(gateway, "/v1/models") for _ in range(2)]
    assert len(first.json["data"]) == 1000
    assert not count
    assert gateway.shell.services.models.body() is gateway.shell.services.models.body()
    put(translator, 7, "other")
    gateway.shell.use(translator.snapshot())
    assert len(count) == 1
    assert (await get(gateway, "/v1/models/m7")).status == 404
    assert (await get(gateway, "/v1/models/other")).json["id"] == "other"
    assert first.body == second.body != (await get(gateway, "/v1/models")).body


async def test_an_edit_of_a_route_leaves_pools_alone(gateway_of_many, gateway, monkeypatch):
    """Endpoints, their connections and queues are not gone through, as no pool differs."""
    _, translator, _ = gateway_of_many
    monkeypatch.setattr(gateway.shell, "queues", None)
    put(translator, 7, "other")
    gateway.shell.use(translator.snapshot())
    assert gateway.shell.plane.snapshot.names()[-1] == "other"
