"""A real vLLM with a tiny model, where there is one, and a gateway in front of it.

`make real-engine` installs one; docs/engine-metrics.md tells more.
"""

import asyncio
import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from headgate import api, routing
from headgate.dataplane.records.recorder import Recorder
from headgate.gateway import GatewaySettings
from headgate.gateway.listener import ClientConnection
from headgate.gateway.shell import Shell
from headgate.telemetry import Registry

START_S = 480.0
"""vLLM takes a minute on a machine that has nothing else to do, and several on a busy one."""
MAKER = Path(__file__).with_name("tiny_model.py")
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "true",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
OPTIONS = (
    *("--served-model-name", "tiny", "--max-model-len", "2048", "--dtype", "float32", "--block-size", "32"),
    *("--enable-lora", "--max-loras", "2", "--max-lora-rank", "8"),
    *("--enforce-eager", "--enable-prompt-tokens-details", "--host", "127.0.0.1"),
)


@dataclass
class RealEngine:
    """A running server."""

    port: int
    directory: Path
    """Of its model, and in it the adapter's."""
    events: routing.KvEvents
    """Where it publishes what its cache holds."""

    def post(self, path, body):
        return httpx2.post(
            f"http://127.0.0.1:{self.port}{path}",
            content=body,
            headers={"content-type": "application/json"},
            timeout=60,
        )

    def get(self, path):
        return httpx2.get(f"http://127.0.0.1:{self.port}{path}", timeout=30)

    def counter(self, name):
        """The sum of a counter of its metrics page, over all series."""
        lines = self.get("/metrics").text.splitlines()
        begins = (f"{name}{{", f"{name} ")
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(begins))


@pytest.fixture(scope="session")
def vllm(engine_python, tmp_path_factory, unused_tcp_port_factory):
    """vLLM with the tiny model, for all tests."""
    directory = tmp_path_factory.mktemp("model")
    environment = {**os.environ, **ENVIRONMENT}
    environment.pop("PYTHONPATH", None)
    subprocess.run([engine_python, str(MAKER), str(directory)], check=True, env=environment, timeout=START_S)
    port, events_port, replay_port = (unused_tcp_port_factory() for _ in range(3))
    published = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": f"tcp://*:{events_port}",
        "replay_endpoint": f"tcp://*:{replay_port}",
    }
    options = (*OPTIONS, "--kv-events-config", json.dumps(published))
    command = (engine_python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(directory))
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port), *options],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=directory,
            start_new_session=True,
        )
    engine = RealEngine(port, directory, routing.KvEvents(port=events_port, replay_port=replay_port))
    try:
        _wait_until_healthy(engine, process)
        yield engine
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_until_healthy(engine, process):
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        with contextlib.suppress(httpx2.TransportError):
            if engine.get("/health").status_code == 200:
                return
        time.sleep(0.5)
    sys.stderr.write((engine.directory / "log").read_text()[-5000:])
    pytest.fail("vLLM did not start: its log is above")


class Gateway:
    """The data path in front of one engine, and a client of it."""

    def __init__(self, shell, port):
        self.shell = shell
        self.client = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60)

    @property
    def load(self):
        (pool,) = self.shell.plane.pools.values()
        return pool.loads[0]

    async def complete(self, prompt, max_tokens=4, model="tiny"):
        """One completion; the answer must be one."""
        response = await self.client.post(
            "/v1/completions",
            json={"model": model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0},
            headers={"x-headgate-explain": "1"},
        )
        assert response.status_code == 200, response.text
        return response

    async def until(self, condition):
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.05)


@pytest.fixture
async def gateway(vllm):
    """Routes the model "tiny" to the engine, and looks at it ten times a second."""
    loop = asyncio.get_running_loop()
    settings = GatewaySettings().replace(
        engine_metrics_interval_s=0.1, logging_access_log="off", clients_trusted_networks=("127.0.0.0/8",)
    )
    shell = Shell(settings, Recorder(Registry(), None), loop)
    server = await loop.create_server(
        functools.partial(ClientConnection, shell.services, shell.clients), "127.0.0.1", 0
    )
    key = api.ObjectRef("ModelServer", "default", "tiny")
    rule = routing.Rule("rule", None, (routing.Target(key, 100),))
    route = routing.Route(key=key, name="default/tiny", model="tiny", adapters=("nonsense",), rules=(rule,))
    endpoint = routing.Endpoint("default/vllm", "127.0.0.1", vllm.port)
    shell.use(
        routing.Snapshot(
            models={"tiny": (route,)},
            adapters={"nonsense": (route,)},
            pools={key: routing.Pool(key=key, endpoints=(endpoint,), kv_events={endpoint: vllm.events})},
        )
    )
    shell.plane.is_ready = True
    shell.scraper.start()
    shell.kv_events.start()
    gateway = Gateway(shell, server.sockets[0].getsockname()[1])
    yield gateway
    await gateway.client.aclose()
    server.close()
    await shell.close()
