"""`headgate gateway --endpoint URL`: engines are served in one line, as they come, change and go."""

from __future__ import annotations

import asyncio
import datetime
import shutil
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import httpx2
import openai
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

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

    async def counted() -> bool:
        page = (await gateway.http.get(gateway.metrics_url)).text
        return 'headgate_gateway_url_servers{state="not_ready"} 1.0' in page

    await gateway.eventually(counted)


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


async def test_roles_split_prefill_and_decode(simulate, start_gateway) -> None:
    """As with a ModelServer that says which Pods prefill and which decode."""
    options = ("--model", "tiny", "--profile", "fast", "--check-protocol", "--role")
    prefills, decodes = await simulate(*options, "prefill"), await simulate(*options, "decode")
    gateway = await start_gateway(
        *("--endpoint", f"p={prefills},role=prefill", "--endpoint", f"d={decodes},role=decode"),
        *("--prefill-remote-min-tokens", "0", "--logging-access-log", "text"),
    )
    assert await gateway.ask("tiny") == 200
    await gateway.eventually(lambda: _said(gateway, "prefill=remote:default/p"))


def certified(pem: Path) -> ssl.SSLContext:
    """The context of a server with a certificate for localhost that it signed itself, which goes to `pem`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - day).not_valid_after(now + day)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    certificate = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    written = certificate.public_bytes(serialization.Encoding.PEM)
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem.write_bytes(written)
    both = pem.with_suffix(".key")
    both.write_bytes(key.private_bytes(serialization.Encoding.PEM, *form) + written)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    return context


async def test_engines_with_https_are_verified(start_engine, start_gateway, tmp_path) -> None:
    """By the authorities of the system; one with another certificate is not served, and that is told."""
    pem, other = tmp_path / "ours.pem", tmp_path / "theirs.pem"
    ours = await start_engine(models=["m"], tls=certified(pem))
    theirs = await start_engine(models=["n"], tls=certified(other))
    gateway = await start_gateway(
        *("--endpoint", f"https://localhost:{ours.port}", "--endpoint", f"https://localhost:{theirs.port}"),
        SSL_CERT_FILE=str(pem),
    )
    assert await gateway.models() == {"m"}
    await gateway.ask("m")
    assert "/v1/chat/completions" in ours.asked
    assert (
        f"localhost-{theirs.port} gets no requests until it answers: it has a certificate" in gateway.said()
    )


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


@pytest.mark.kubectl
async def test_the_objects_are_printed_for_a_cluster(
    start_engine, start_gateway, tmp_path, kubeconfig
) -> None:
    """They are valid, kubectl applies them, and they serve the same without --endpoint. An engine that does
    not answer is told."""
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
    for _ in range(2):
        kubectl = ("kubectl", "--kubeconfig", str(kubeconfig), "apply", "-f", str(file))
        process = await asyncio.create_subprocess_exec(*kubectl, stdout=subprocess.PIPE)
        said, _ = await process.communicate()
    assert said.decode().count("unchanged") == 3, said
    gateway = await start_gateway("--objects", str(file))
    assert await gateway.models() == {"m", "lora"}
    await gateway.ask("lora")
    assert "/v1/chat/completions" in one.asked
