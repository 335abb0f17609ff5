"""Pickers that are killed and replaced while requests go through Envoy."""

import asyncio
import contextlib
import os
import signal
import sys
from collections import Counter

import envoy_process
import httpx2
import msgspec
import pytest
from picker_world import completion, pool
from test_through_envoy import ENVOY, Engine, _stop

from headgate import api, apiserver, cluster, serving

SECONDS = float(os.environ.get("HEADGATE_TEST_SOAK_SECONDS", "20"))
CLIENTS = 4
pytestmark = [
    pytest.mark.whole,
    pytest.mark.skipif(ENVOY is None, reason="there is no Envoy: run tools/fetch_envoy.sh"),
]


class Picker:
    """A picker process, which serves TLS as by default."""

    def __init__(self, kubeconfig, port, metrics_port, log):
        self._command = (
            *(sys.executable, "-m", "headgate", "picker", "--kubeconfig", str(kubeconfig)),
            *("--pool-name", "pool", "--host", "127.0.0.1", "--grpc-port", str(port)),
            *("--grpc-health-port", "0", "--metrics-port", str(metrics_port), "--drain-timeout", "5s"),
        )
        self._log, self._metrics_port = log, metrics_port

    async def start(self):
        self.process = await asyncio.create_subprocess_exec(
            *self._command, stdout=self._log, stderr=self._log, start_new_session=True
        )
        async with asyncio.timeout(60), httpx2.AsyncClient() as http:
            while True:
                with contextlib.suppress(httpx2.TransportError):
                    url = f"http://127.0.0.1:{self._metrics_port}/debug/endpoints"
                    if any((await http.get(url)).json().values()):
                        return
                await asyncio.sleep(0.05)

    async def end(self, number):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        await self.process.wait()


@contextlib.asynccontextmanager
async def rig(tmp_path, ports, **options):
    """Two engines, an API server, a picker, and Envoy."""
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(apiserver.running(apiserver.Config(tmp_path / "s", port=0)))
        client = await stack.enter_async_context(cluster.Client.from_kubeconfig(server.kubeconfig))
        await client.create(pool())
        addresses = []
        for number in (1, 2):
            port = ports()
            addresses.append(("127.0.0.1", port))
            engine = serving.EmbeddedServer(
                serving.configuration(Engine(f"pod-{number}", port), timeout_keep_alive=60)
            )
            sock = stack.enter_context(serving.listening_socket("127.0.0.1", port))
            stack.push_async_callback(_stop, engine, asyncio.create_task(engine.serve([sock])))
            notes = {"headgate.dev/address": f"127.0.0.1:{port}"}
            metadata = {"name": f"pod-{number}", "namespace": "default", "labels": {"app": "pool"}}
            spec = {"containers": [{"name": "c", "image": "i"}]}
            made = {"metadata": {**metadata, "annotations": notes}, "spec": spec}
            await client.create(msgspec.convert(made, api.Pod))
            ready = {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
            await client.patch_status(api.Pod, f"pod-{number}", "default", ready)
        log = stack.enter_context((tmp_path / "picker.log").open("wb"))
        picker_port = ports()
        picker = Picker(server.kubeconfig, picker_port, ports(), log)
        await picker.start()
        stack.push_async_callback(picker.end, signal.SIGKILL)
        config = envoy_process.configuration(
            ports(),
            picker_port,
            envoy_process.override_host(addresses),
            is_secure=True,
            **options,
        )
        url = await stack.enter_async_context(envoy_process.running(ENVOY, tmp_path, config))
        yield url, picker


async def load(url, until, seen):
    """Requests one after the other; counts what comes back, and how long the slowest took."""
    loop = asyncio.get_running_loop()
    async with httpx2.AsyncClient(timeout=30) as http:
        while not until.is_set():
            began = loop.time()
            try:
                response = await http.post(f"{url}/v1/completions", content=completion())
            except httpx2.RemoteProtocolError:
                seen["broken off"] += 1
            else:
                seen[response.status_code] += 1
                seen["picked"] += "x-went-into-resp-headers" in response.headers
            seen["slowest_ms"] = max(seen["slowest_ms"], round((loop.time() - began) * 1e3))
            await asyncio.sleep(0.01)


MODES = {
    "FailOpen": {"fails_open": True, "mode": "BUFFERED", "sends_responses": False},
    "FailClose": {"fails_open": False},
}


@pytest.mark.parametrize("mode", MODES)
async def test_requests_while_pickers_are_replaced(tmp_path, unused_tcp_port_factory, mode):
    """Killed, or stopped, every few seconds. FailOpen, with buffered bodies: none fails. FailClose: some
    requests fail, and are told at once."""
    seen, over = Counter(), asyncio.Event()
    loop = asyncio.get_running_loop()
    async with rig(tmp_path, unused_tcp_port_factory, **MODES[mode]) as (url, picker):
        clients = [asyncio.create_task(load(url, over, seen)) for _ in range(CLIENTS)]
        ends = loop.time() + SECONDS
        kills = 0
        while loop.time() < ends:
            await asyncio.sleep(2)
            await picker.end(signal.SIGKILL if kills % 2 == 0 else signal.SIGTERM)
            kills += 1
            await asyncio.sleep(0.5)
            await picker.start()
            await asyncio.sleep(1)
        before = seen["picked"]
        await asyncio.sleep(1)
        over.set()
        await asyncio.gather(*clients)
    assert seen["picked"] > before, "the last picker is not asked"
    assert seen.keys() <= {200, 500, 503, "broken off", "slowest_ms", "picked"}
    assert seen["slowest_ms"] < 10_000
    failed = seen[500] + seen[503] + seen["broken off"]
    assert (failed == 0) if MODES[mode]["fails_open"] else (failed > 0), dict(seen)
