"""`headgate gateway --endpoint URL`: engines are served in one line, as they come, change and go."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys

import httpx2
import openai

from headgate.cli.gateway import object_files
from headgate.cli.manifests import read_text

_HEADGATE = (sys.executable, "-m", "headgate")


async def test_two_engines_are_served_in_one_line(simulate, start_gateway) -> None:
    """curl and OpenAI's SDK get answers, of both engines; models and adapters are listed."""
    first = await simulate(
        "--model", "tiny", "--enable-lora", "--lora-modules", "sql=/l", "--profile", "fast"
    )
    second = await simulate("--model", "tiny", "--model", "small", "--profile", "fast")
    gateway = await start_gateway("--endpoint", first, "--endpoint", f"two={second}")
    assert await gateway.models() == {"tiny", "small", "sql"}
    for model in ("tiny", "small", "sql"):
        assert await gateway.ask(model) == 200
    assert await gateway.ask("large") == 404

    body = '{"model": "tiny", "prompt": "hello", "max_tokens": 3}'
    curl = [shutil.which("curl") or "curl", "-sS", f"{gateway.url}/v1/completions", "-d", body]
    process = await asyncio.create_subprocess_exec(*curl, stdout=subprocess.PIPE)
    assert b'"text_completion"' in (await process.communicate())[0]
    async with openai.AsyncOpenAI(
        base_url=f"{gateway.url}/v1", api_key="x", http_client=openai.DefaultAsyncHttpxClient(trust_env=False)
    ) as sdk:
        assert [each.id for each in (await sdk.models.list()).data] == ["small", "sql", "tiny"]
        stream = await sdk.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "hello"}], max_tokens=3, stream=True
        )
        assert [chunk async for chunk in stream]

    shown = await gateway.shown()
    assert [each["name"] for each in shown["endpoints"]][1] == "two"
    (server,) = shown["endpoints"][1]["servers"]
    assert (server["ready"], server["engine"], server["models"]) == (True, "vLLM", ["small", "tiny"])
    endpoints = (await gateway.http.get(f"{gateway.admin_url}/debug/endpoints")).json()
    assert {each["name"] for each in endpoints["default/tiny"]} >= {"default/two"}


async def test_models_come_and_go_with_their_engines(start_engine, start_gateway) -> None:
    """Also those of an engine that is down at the start."""
    one = await start_engine(models=["m"])
    gone = await start_engine("127.0.0.2")
    await gone.__aexit__()
    urls = [f"http://127.0.0.1:{one.port}", f"http://127.0.0.2:{gone.port}"]
    gateway = await start_gateway(
        "--endpoint", urls[0], "--endpoint", f"late={urls[1]}", "--objects-ask-s", "0.1"
    )
    assert await gateway.models() == {"m"}
    assert "endpoint late gets no requests until it answers: it cannot be connected to" in gateway.said()

    late = await start_engine("127.0.0.2", port=gone.port, models=["m", "n"])

    async def listed(*models: str) -> bool:
        return await gateway.models() == set(models)

    await gateway.eventually(lambda: listed("m", "n"))
    one.models, one.adapters = ["m", "o"], {"lora": "o"}
    await gateway.eventually(lambda: listed("m", "n", "o", "lora"))
    one.adapters = {}
    await gateway.eventually(lambda: listed("m", "n", "o"))
    await late.__aexit__()
    await gateway.eventually(lambda: _is(gateway.ask("n"), 503))
    assert await gateway.models() == {"m", "n", "o"}, "who is away keeps its models"
    page = (await gateway.http.get(gateway.metrics_url)).text
    assert 'headgate_gateway_url_servers{state="not_ready"} 1' in page


async def _is(asked, status: int) -> bool:
    return await asked == status


async def test_an_engine_behind_a_prefix_is_reached(start_engine, start_gateway) -> None:
    """Requests, the list of models and the metrics page have it in front of their path."""
    one = await start_engine(models=["m"])
    gateway = await start_gateway("--endpoint", f"http://127.0.0.1:{one.port}/llama/v", "--workers", "2")
    await gateway.ask("m")
    await gateway.eventually(lambda: _has(one, "/llama/v/metrics"))
    assert "/llama/v/v1/chat/completions" in one.asked
    assert "/llama/v/v1/models" in one.asked
    assert not [path for path in one.asked if not path.startswith("/llama/v/")]


async def _has(engine, path: str) -> bool:
    return path in engine.asked


async def test_settings_of_endpoints_are_reloaded(start_engine, start_gateway, tmp_path) -> None:
    """More engines, other options and fewer engines, while requests go on."""
    one, two = await start_engine(models=["m"]), await start_engine("127.0.0.2", models=["n"])
    file = tmp_path / "gateway.yaml"
    first, second = f"http://127.0.0.1:{one.port}", f"http://127.0.0.2:{two.port}"
    file.write_text(f"objects: {{endpoints: ['{first}']}}\n")
    gateway = await start_gateway("--config", str(file))
    assert await gateway.models() == {"m"}
    file.write_text(f"objects: {{endpoints: ['{first},weight=2', '{second}']}}\n")
    missing = []

    async def both() -> bool:
        models = await gateway.models()
        missing.extend(() if "m" in models else ("m",))
        return models == {"m", "n"}

    await gateway.eventually(both)
    assert not missing, "another weight does not interrupt"
    file.write_text(f"objects: {{endpoints: ['{second}', 'gpu:1']}}\n")
    await gateway.eventually(lambda: _said(gateway, "did you mean http://gpu:1?"))
    assert await gateway.models() == {"m", "n"}
    file.write_text(f"objects: {{endpoints: ['{second}']}}\n")

    async def one_left() -> bool:
        return await gateway.models() == {"n"}

    await gateway.eventually(one_left)


async def _said(gateway, text: str) -> bool:
    return text in gateway.said()


async def test_an_upgrade_keeps_all_models(start_engine, start_gateway) -> None:
    """Also those of an engine that does not answer at that moment."""
    one, two = await start_engine(models=["m"]), await start_engine("127.0.0.2", models=["n"])
    urls = [f"http://127.0.0.1:{one.port}", f"http://127.0.0.2:{two.port}"]
    gateway = await start_gateway("--endpoint", urls[0], "--endpoint", urls[1])
    assert await gateway.models() == {"m", "n"}
    before = (await gateway.http.get(f"{gateway.admin_url}/debug/config")).json()["workers"][0]["pid"]
    gateway.process.send_signal(signal.SIGUSR2)

    async def is_replaced() -> bool:
        try:
            shown = (await gateway.http.get(f"{gateway.admin_url}/debug/config")).json()
        except httpx2.HTTPError:
            return False
        assert await gateway.models() == {"m", "n"}
        ready = [each["pid"] for each in shown["workers"] if each["state"] == "ready"]
        return bool(ready) and before not in ready

    await gateway.eventually(is_replaced)
    assert await gateway.models() == {"m", "n"}


async def test_mistakes_are_told_at_once_and_nothing_starts() -> None:
    """By option and value, each with a fix."""
    given = ["--endpoint", "gpu-1:8000", "--endpoint", "http://gpu-2,role=chief", "--objects", "missing"]
    process = await asyncio.create_subprocess_exec(
        *(*_HEADGATE, "gateway", *given), stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    _, told = await process.communicate()
    assert process.returncode == 1
    assert (
        "--endpoint: 'gpu-1:8000': a URL is needed, with its scheme: did you mean http://gpu-1:8000?"
        in told.decode()
    )
    assert (
        "--endpoint: 'http://gpu-2,role=chief': role=chief is none of prefill, decode and both"
        in told.decode()
    )


async def test_the_objects_are_printed_for_a_cluster(start_engine, start_gateway, tmp_path) -> None:
    """They are valid, and serve the same without --endpoint. An engine that does not answer is told."""
    one = await start_engine(models=["m"], adapters={"lora": "m"})
    url = f"http://127.0.0.1:{one.port}"
    process = await asyncio.create_subprocess_exec(
        *(
            *_HEADGATE,
            "gateway",
            "--endpoint",
            f"one={url}",
            "--endpoint",
            "two=http://127.0.0.9:1",
            "--print-objects",
        ),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    printed, told = await process.communicate()
    assert process.returncode == 1
    assert told.decode() == "Error: two cannot be connected to\n"
    assert object_files.judged(read_text("printed", printed.decode())) == []
    file = tmp_path / "objects.yaml"
    file.write_bytes(printed)
    gateway = await start_gateway("--objects", str(file))
    assert await gateway.models() == {"m", "lora"}
    await gateway.ask("lora")
    assert "/v1/chat/completions" in one.asked
