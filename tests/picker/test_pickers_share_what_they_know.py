"""Two processes of `headgate picker` know each other's requests, until one is killed."""

import asyncio
import contextlib
import json
import os
import signal
import sys

import httpx2
import msgspec
from picker_world import Proxy, completion, pool

from headgate import api, apiserver, cluster, loop_turns, rpc

PATIENCE_S = 60.0


async def until(condition):
    """Wait until it holds; fails after a long time only."""
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():
            await asyncio.sleep(0.05)


class Picker:
    """A process, and its ports."""

    def __init__(self, process, grpc_port, metrics_port, peers_port):
        self.process, self.grpc_port, self.peers_port = process, grpc_port, peers_port
        self.http = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{metrics_port}")

    async def requests(self):
        """Requests in flight on all endpoints, as this picker knows them."""
        told = (await self.http.get("/debug/endpoints")).json()
        return sum(each["requests"] for each in told.get("InferencePool/default/pool", ()))

    async def peers(self):
        return (await self.http.get("/debug/statistics")).json()["peers"]["members"]

    async def is_ready(self):
        with contextlib.suppress(httpx2.TransportError):
            return (await self.http.get("/readyz")).status_code == 200
        return False

    async def ask(self):
        """A request that stays in flight; returns its connection."""
        client = await rpc.connect("127.0.0.1", self.grpc_port, loop_turns.Turns(asyncio.get_running_loop()))
        proxy = Proxy(client)
        await proxy.ask(completion())
        return client, proxy


@contextlib.asynccontextmanager
async def pickers(tmp_path, ports, *flags):
    """Two pickers of one pool with two Pods."""
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(apiserver.running(apiserver.Config(tmp_path, port=0)))
        client = await stack.enter_async_context(cluster.Client.from_kubeconfig(server.kubeconfig))
        await client.create(pool())
        for number in (1, 2):
            meta = {"name": f"pod-{number}", "namespace": "default", "labels": {"app": "pool"}}
            spec = {"containers": [{"name": "c", "image": "i"}]}
            await client.create(msgspec.convert({"metadata": meta, "spec": spec}, api.Pod))
            status = {
                "podIP": f"192.168.1.{number}",
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            await client.patch_status(api.Pod, f"pod-{number}", "default", status)
        started = []
        for own in (ports[:4], ports[4:]):
            grpc_port, health_port, metrics_port, peers_port = own
            command = (
                f"-m headgate picker --kubeconfig {server.kubeconfig} --pool-name pool "
                f"--secure-serving=false --host 127.0.0.1 "
                f"--grpc-port {grpc_port} --grpc-health-port {health_port} "
                f"--metrics-port {metrics_port} --peers-port {peers_port} --drain-timeout 1s"
            )
            process = await asyncio.create_subprocess_exec(sys.executable, *command.split(), *flags)

            async def end(process=process):
                if process.returncode is None:
                    process.terminate()
                await process.wait()

            stack.push_async_callback(end)
            started.append(Picker(process, grpc_port, metrics_port, peers_port))
            stack.push_async_callback(started[-1].http.aclose)
        for each in started:
            await until(each.is_ready)
        yield client, started


async def share_and_lose(first, second):
    """A request of the second is known to the first, until the second is killed."""

    async def both_know():
        return await first.peers() == 1 and await second.peers() == 1

    await until(both_know)
    connection, _ = await second.ask()

    async def knows_it():
        return await first.requests() == 1

    await until(knows_it)
    other, proxy = await first.ask()

    async def both_count_two():
        return await first.requests() == 2 and await second.requests() == 2

    await until(both_count_two)
    # One Pod each: the second request goes where the first one, of the other picker, is not.
    told = (await first.http.get("/debug/endpoints")).json()["InferencePool/default/pool"]
    assert [each["requests"] for each in told] == [1, 1]
    os.kill(second.process.pid, signal.SIGKILL)

    async def knows_only_its_own():
        return await first.requests() == 1

    await until(knows_only_its_own)
    assert await proxy.serve(json.dumps({"usage": {}}).encode())
    for each in (connection, other):
        each.close()


async def test_by_a_list(tmp_path, unused_tcp_port_factory):
    """Both have the same list, with their own address in it."""
    ports = [unused_tcp_port_factory() for _ in range(8)]
    flags = [f"--peers=127.0.0.1:{port}" for port in (ports[3], ports[7])]
    async with pickers(tmp_path, ports, *flags) as (_, (first, second)):
        await share_and_lose(first, second)


async def test_by_leases(tmp_path, unused_tcp_port_factory):
    """Each finds the other by its Lease, and deletes its own when it ends."""
    ports = [unused_tcp_port_factory() for _ in range(8)]
    async with pickers(tmp_path, ports, "--peers-discovery") as (client, (first, second)):
        await share_and_lose(first, second)
        leases = await client.list(api.Lease, client.namespace)
        assert len(leases) == 2
        first.process.terminate()
        await first.process.wait()
        assert len(await client.list(api.Lease, client.namespace)) == 1  # that of the one that was killed
