"""The engine has the adapters that a controller sends, whatever happens to it and to the sidecar."""

import asyncio
import json
import random
import signal

import pytest

TOKEN = "a-token"
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def token(tmp_path):
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.fixture
def beside(sidecar, token, tmp_path):
    """Start a sidecar that has the token."""

    async def run(engine, *more, **options):
        words = ("--token-file", str(token), "--adapters-dir", str(tmp_path / "weights"))
        return await sidecar(engine, *words, *more, **options)

    return run


def wanted(**sources):
    return {"adapters": [{"name": name, "source": source} for name, source in sources.items()]}


async def put(beside, **sources):
    response = await beside.client.put("/v1/adapters", json=wanted(**sources), headers=BEARER)
    assert response.status_code == 200, response.text
    return response.json()["adapters"]


async def states(beside):
    return {
        each["name"]: each["state"] for each in (await beside.client.get("/v1/adapters")).json()["adapters"]
    }


async def roots(engine):
    cards = (await engine.client.get("/v1/models")).json()["data"]
    return {card["id"]: card["root"] for card in cards if card["parent"]}


def have(engine, **expected):
    async def holds():
        return await roots(engine) == expected

    return holds


def are(beside, **expected):
    async def holds():
        return await states(beside) == expected

    return holds


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
async def test_what_is_sent_is_loaded_and_what_is_left_out_is_unloaded(engine, beside, eventually, kind):
    """Sources that are directories already are used where they are."""
    served = await engine("--engine", kind)
    runtime = await beside(served, "--engine", kind)
    assert await put(runtime, sql="/a/sql", poem="pvc://claim/poem") == [
        {"name": "sql", "source": "/a/sql", "state": "Loading", "error": ""},
        {"name": "poem", "source": "pvc://claim/poem", "state": "Loading", "error": ""},
    ]
    await eventually(are(runtime, sql="Loaded", poem="Loaded"))
    assert await roots(served) == {"sql": "/a/sql", "poem": "/claim/poem"}
    await put(runtime, poem="pvc://claim/poem")
    await eventually(have(served, poem="/claim/poem"))
    await put(runtime)
    await eventually(have(served))


async def test_a_directory_that_is_there_is_used(engine, beside, eventually):
    """Whatever its source is: a controller knows where it is mounted."""
    served = await engine()
    runtime = await beside(served)
    adapter = {"name": "sql", "source": "pvc://claim/sql", "directory": "/mnt/claim/sql"}
    put = await runtime.client.put("/v1/adapters", json={"adapters": [adapter]}, headers=BEARER)
    assert put.status_code == 200
    await eventually(have(served, sql="/mnt/claim/sql"))


async def test_a_changed_source_is_unloaded_first(engine, beside, eventually):
    """An engine refuses a name that it has."""
    served = await engine()
    runtime = await beside(served)
    await put(runtime, sql="/a/one")
    await eventually(have(served, sql="/a/one"))
    await put(runtime, sql="/a/two")
    await eventually(have(served, sql="/a/two"))
    await eventually(are(runtime, sql="Loaded"))


async def test_an_engine_that_restarts_gets_its_adapters_again(engine, beside, eventually):
    """Nobody has to send them a second time; meanwhile they are not said to be loaded."""
    served = await engine()
    runtime = await beside(served)
    await put(runtime, sql="/a/sql")
    await eventually(are(runtime, sql="Loaded"))
    await served.kill()
    await eventually(are(runtime, sql="Loading"))
    again = await engine(port=served.port)
    await eventually(have(again, sql="/a/sql"))
    await eventually(are(runtime, sql="Loaded"))


async def test_a_sidecar_that_restarts_goes_on(engine, beside, eventually):
    """Also with what was to be unloaded when it was killed."""
    served = await engine()
    runtime = await beside(served)
    await put(runtime, sql="/a/sql", poem="/a/poem")
    await eventually(have(served, sql="/a/sql", poem="/a/poem"))
    served.signal(signal.SIGSTOP)
    await put(runtime, poem="/a/poem")
    await runtime.kill()
    served.signal(signal.SIGCONT)
    again = await beside(served)
    await eventually(have(served, poem="/a/poem"))
    await eventually(are(again, poem="Loaded"))


async def test_adapters_of_others_are_left_alone(engine, beside, eventually):
    """Those that the engine was started with, as long as nobody desires another of the name."""
    served = await engine("--lora-modules", "mine=/start/mine")
    runtime = await beside(served)
    await put(runtime, sql="/a/sql")
    await eventually(have(served, mine="/start/mine", sql="/a/sql"))
    await put(runtime)
    await eventually(have(served, mine="/start/mine"))


async def test_an_adapter_that_cannot_be_loaded_says_why(engine, beside, eventually):
    """Each for itself: the others are loaded. It is tried again."""
    served = await engine()
    runtime = await beside(served)
    await put(runtime, tiny="/a/tiny", sql="/a/sql")
    await eventually(are(runtime, tiny="Failed", sql="Loaded"))
    failed = (await runtime.client.get("/v1/adapters")).json()["adapters"][0]
    assert "The lora adapter 'tiny' has already been loaded" in failed["error"]
    assert 'headgate_runtime_adapters{state="Failed"} 1' in (await runtime.client.get("/metrics")).text


async def test_a_source_that_cannot_be_downloaded_says_why(engine, beside, eventually):
    """In the words of the download."""
    runtime = await beside(await engine())
    await put(runtime, sql="ftp://nowhere/sql")
    await eventually(are(runtime, sql="Failed"))
    assert (await runtime.client.get("/v1/adapters")).json()["adapters"][0]["error"]


async def test_an_engine_without_such_an_api_is_named(engine, beside, eventually):
    """TensorRT-LLM cannot load adapters while it runs; vLLM has to be told so when it starts."""
    runtime = await beside(await engine("--engine", "trtllm"), "--engine", "trtllm")
    await put(runtime, sql="/a/sql")
    await eventually(are(runtime, sql="Failed"))
    failed = (await runtime.client.get("/v1/adapters")).json()["adapters"][0]
    assert failed["error"] == "TensorRT-LLM cannot load adapters while it runs"


async def test_single_calls_load_and_unload(engine, beside):
    """As earlier controllers do it; a failure leaves nothing behind."""
    served = await engine()
    runtime = await beside(served)

    async def post(path, **body):
        response = await runtime.client.post(path, json=body, headers=BEARER)
        return response.status_code, response.json()["message"]

    load, unload = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
    assert await post(load, lora_name="sql", source="/a/sql") == (200, "adapter sql is loaded")
    assert await roots(served) == {"sql": "/a/sql"}
    status, message = await post(load, lora_name="tiny", source="/a/tiny")
    assert (status, "already been loaded" in message) == (502, True)
    assert await states(runtime) == {"sql": "Loaded"}
    assert await post(unload, lora_name="sql") == (200, "adapter sql is unloaded")
    assert await roots(served) == {}
    assert await post(unload, lora_name="sql") == (404, "there is no adapter sql")


async def test_the_desired_set_outlives_hostile_files(engine, beside, tmp_path):
    """A file that is not of the sidecar's form is as none."""
    served = await engine()
    (tmp_path / "state" / "runtime").mkdir(parents=True)
    for content in (b"\xff", b"[" * 100_000, json.dumps({"adapters": [{"name": ""}]}).encode()):
        (tmp_path / "state" / "runtime" / "adapters.json").write_bytes(content)
        runtime = await beside(served)
        assert await states(runtime) == {}
        await runtime.kill()


async def test_many_callers_change_the_set_at_once(engine, beside, eventually):
    """The last one counts, and the engine has exactly its adapters in the end."""
    served = await engine()
    runtime = await beside(served)
    await asyncio.gather(*(put(runtime, **{f"a{i}": f"/a/{i}", "b": f"/b/{i}"}) for i in range(20)))
    await put(runtime, last="/a/last")
    await eventually(have(served, last="/a/last"))


@pytest.mark.parametrize("seed", range(2))
async def test_whatever_is_killed_the_engine_has_the_last_set_in_the_end(engine, beside, eventually, seed):
    """Engine and sidecar are killed at any time, between and after changes."""
    rng = random.Random(seed)
    served = await engine()
    runtime = await beside(served)
    desired = {}
    for _ in range(5):
        names = rng.sample("abcde", rng.randrange(5))
        desired = {name: f"/{rng.randrange(2)}/{name}" for name in names}
        await put(runtime, **desired)
        await asyncio.sleep(rng.random())
        if rng.random() < 0.5:
            await served.kill()
            served = await engine(port=served.port)
        if rng.random() < 0.5:
            await runtime.kill()
            runtime = await beside(served)
    await eventually(have(served, **desired))
    await eventually(are(runtime, **dict.fromkeys(desired, "Loaded")))


async def readiness(beside):
    return (await beside.client.get("/ready")).status_code


async def test_an_engine_is_ready_once_it_has_its_adapters(engine, beside, eventually):
    """Also after it has restarted; adapters that are added later do not make it unready."""
    served = await engine()
    runtime = await beside(served)
    assert await readiness(runtime) == 503  # it waits for a first set
    await put(runtime, sql="/a/sql")

    async def is_ready():
        return await readiness(runtime) == 200

    await eventually(is_ready)
    assert await roots(served) == {"sql": "/a/sql"}
    await put(runtime, sql="/a/sql", wrong="hf://no/such")
    assert await readiness(runtime) == 200
    await eventually(are(runtime, sql="Loaded", wrong="Failed"))
    await served.kill()
    assert await readiness(runtime) == 503
    again = await engine(port=served.port)
    await eventually(is_ready)
    assert await roots(again) == {"sql": "/a/sql"}


async def test_an_empty_set_makes_an_engine_ready(engine, beside, eventually):
    served = await engine()
    runtime = await beside(served)
    await put(runtime)
    assert await readiness(runtime) == 200
