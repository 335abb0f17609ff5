import asyncio
import re
import time

import msgspec
import pytest

LOAD, UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"


async def models(server):
    cards = (await server.client.get("/v1/models")).json()["data"]
    return {card["id"]: card["parent"] for card in cards}


async def ask(server, model):
    return await server.client.post("/v1/completions", json={"model": model, "prompt": "x", "max_tokens": 2})


async def test_adapters_are_listed_with_their_parent(serve, adapter):
    """Those of the start, then those that were loaded."""
    async with serve(models=("tiny", "alias"), lora_modules=(adapter("sql"),)) as server:
        loaded = await server.client.post(LOAD, json={"lora_name": "poem", "lora_path": "/adapters/poem"})
        assert (loaded.status_code, loaded.text) == (200, "Success: LoRA adapter 'poem' added successfully.")
        assert await models(server) == {"tiny": None, "alias": None, "sql": "tiny", "poem": "tiny"}
        answer = (await ask(server, "poem")).json()
        assert (answer["model"], answer["usage"]["completion_tokens"]) == ("poem", 2)


async def test_an_unloaded_adapter_is_unknown(serve, adapter):
    """Requests for it get the 404 of any model that does not exist."""
    async with serve(lora_modules=(adapter("sql"),)) as server:
        gone = await server.client.post(UNLOAD, json={"lora_name": "sql"})
        assert (gone.status_code, gone.text) == (200, "Success: LoRA adapter 'sql' removed successfully.")
        assert (await ask(server, "sql")).status_code == 404
        assert await models(server) == {"tiny": None}


async def test_loading_and_unloading_are_refused_in_vllms_words(serve, adapter):
    """Twice the same, without a path, without a name, and what is not there."""
    async with serve(lora_modules=(adapter("sql"),)) as server:
        for path, body, status, kind, words in (
            (LOAD, {"lora_name": "sql", "lora_path": "/x"}, 400, "InvalidUserInput", "already been loaded"),
            (LOAD, {"lora_name": "tiny", "lora_path": "/x"}, 400, "InvalidUserInput", "already been loaded"),
            (LOAD, {"lora_name": "new"}, 400, "InvalidUserInput", "must be provided"),
            (UNLOAD, {}, 400, "InvalidUserInput", "needs to be provided"),
            (UNLOAD, {"lora_name": "new"}, 404, "NotFoundError", "cannot be found"),
        ):
            answer = await server.client.post(path, json=body)
            error = answer.json()["error"]
            assert (answer.status_code, error["type"], error["code"]) == (status, kind, status)
            assert words in error["message"]
        again = {"lora_name": "sql", "lora_path": "/x", "load_inplace": True}
        assert (await server.client.post(LOAD, json=again)).status_code == 200


@pytest.mark.parametrize("path", [LOAD, UNLOAD])
async def test_vllm_has_no_such_api_unless_it_is_told_so(serve, path):
    """Without VLLM_ALLOW_RUNTIME_LORA_UPDATING, the paths do not exist."""
    async with serve(runtime_adapters=False) as server:
        answer = await server.client.post(path, json={"lora_name": "sql", "lora_path": "/x"})
        assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"})


async def test_sglang_has_an_api_of_its_own(serve):
    """Its responses list the adapters, and vLLM's paths do not exist."""
    async with serve(api="sglang") as server:

        async def post(path, **body):
            answer = await server.client.post(path, json=body)
            return answer.status_code, answer.json()

        status, told = await post("/load_lora_adapter", lora_name="sql", lora_path="/x")
        assert (status, told) == (
            200,
            {"success": True, "error_message": "", "loaded_adapters": {"sql": "/x"}},
        )
        status, told = await post("/load_lora_adapter", lora_name="sql", lora_path="/x")
        assert (status, told["success"]) == (400, False)
        assert (await post("/load_lora_adapter", lora_name="new"))[0] == 400
        assert (await post("/unload_lora_adapter", lora_name="new"))[0] == 400
        assert await post("/unload_lora_adapter", lora_name="sql") == (
            200,
            {"success": True, "error_message": "", "loaded_adapters": {}},
        )
        assert await post(LOAD, lora_name="sql", lora_path="/x") == (404, {"detail": "Not Found"})
        assert (await post("/load_lora_adapter", lora_name="sql", lora_path="/x"))[0] == 200
    async with serve(api="sglang", runtime_adapters=False) as server:
        answer = await server.client.post("/load_lora_adapter", json={"lora_name": "s", "lora_path": "/x"})
        assert "--enable-lora" in answer.json()["error_message"]


async def test_the_gauge_tells_who_runs_and_who_waits(serve, eventually, slow_engine, adapter):
    """One series: the newest; its value is a time in unix seconds with fractions."""

    async def lists():
        page = (await server.client.get("/metrics")).text
        found = re.findall(r"vllm:lora_requests_info\{(.*)\} (\S+)", page)
        assert len(found) == 1
        labels = dict(re.findall(r'(\w+)="([^"]*)"', found[0][0]))
        assert abs(float(found[0][1]) - time.time()) < 600
        assert labels["max_lora"] == "4"
        return labels["running_lora_adapters"], labels["waiting_lora_adapters"]

    modules = tuple(map(adapter, "abc"))
    engine = msgspec.structs.replace(slow_engine, max_adapters=4)
    async with serve(engine=engine, lora_modules=modules) as server:
        assert await lists() == ("", "")
        asking = []
        for number, name in enumerate(("b", "c", "a"), 1):
            asking.append(asyncio.ensure_future(ask(server, name)))
            await eventually(lambda number=number: server.live.statistics().submitted_total == number)
            await eventually(lambda: server.live.statistics().running == 1)
        assert await lists() == ("b", "a,c")
        server.live.cancel_all()
        await asyncio.gather(*asking)
        assert await lists() == ("", "")


async def test_an_adapter_comes_back_from_the_hosts_memory(serve, fast, adapter):
    """In no time, where loading it anew takes 0.1 s; by the engine's own times."""
    slow = {"max_adapters": 1, "adapter_load_s": 0.1}
    modules = (adapter("a"), adapter("b"))

    async def comes_back(**more):
        async with serve(engine=fast(**slow, **more), lora_modules=modules) as server:
            await ask(server, "a")
            await ask(server, "b")
            await ask(server, "a")
            page = (await server.client.get("/metrics")).text
        return float(re.search(r"^vllm:time_to_first_token_seconds_sum.* (\S+)$", page, re.MULTILINE)[1])

    assert await comes_back() == pytest.approx(0.3)
    assert await comes_back(max_host_adapters=2) == pytest.approx(0.2)


@pytest.mark.parametrize("api", ["vllm", "sglang"])
async def test_an_adapter_that_is_not_there_is_refused(serve, tmp_path, api):
    """A path that is not absolute is a name at a hub."""
    path = LOAD if api == "vllm" else LOAD.removeprefix("/v1")
    async with serve(api=api, checks_paths=True) as server:

        async def load(name, where):
            return await server.client.post(path, json={"lora_name": name, "lora_path": where})

        refused = await load("a", str(tmp_path / "none"))
        assert refused.status_code == (404 if api == "vllm" else 400)
        assert str(tmp_path / "none") in refused.text
        assert (await load("a", str(tmp_path))).status_code == 200
        assert (await load("b", "org/b")).status_code == 200
        assert (await load("c", "/\0")).status_code in (400, 404)
