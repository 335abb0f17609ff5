"""Pools with a fixed capacity, and clients with priorities."""

import asyncio

import httpx2
import pytest

from headgate.dataplane.queueing import gauges
from headgate.gateway import pages

ROOM_FOR_ONE = {
    "queue_enabled": True,
    "queue_detector": "concurrency-detector",
    "queue_max_in_flight": 1,
    "queue_fairness_ids_from": "anyone",
    "queue_objectives_from": "anyone",
}
"""Nothing depends on how fast anything is; clients say who they are, as the references have it."""


class Pool:
    """A gateway before an endpoint that answers when it is told to."""

    def __init__(self, gateway, endpoint, eventually) -> None:
        self.gateway, self.endpoint, self._eventually = gateway, endpoint, eventually

    @property
    def queue(self):
        (queue,) = self.gateway.shell.queues.all()
        return queue

    async def ask(self, prompt: str = "hello", *, stream: bool = False, **headers: str):
        """A client whose request was sent to the endpoint."""
        client = await self.gateway.connect()
        client.post({"model": "m", "prompt": prompt, "stream": stream}, **headers)
        return client

    async def wait(self, prompt: str = "hello", *, stream: bool = False, **headers: str):
        """A client whose request is held."""
        held = self.queue.held
        client = await self.ask(prompt, stream=stream, **headers)
        await self._eventually(lambda: self.queue.held == held + 1)
        return client

    async def served(self) -> str:
        """Answers the next request that the endpoint gets; its prompt."""
        call = await self.endpoint.call()
        call.answer(b"{}")
        return call.json["prompt"]

    async def page(self, path: str):
        """What the admin page says."""
        transport = httpx2.ASGITransport(app=pages.admin_page(self.gateway.shell))
        async with httpx2.AsyncClient(transport=transport, base_url="http://admin") as client:
            response = await client.get(path)
        assert response.status_code == 200
        return response.json()

    def sweep(self, after_s: float) -> None:
        """What happens once a second, as if so much time had passed."""
        now = asyncio.get_running_loop().time() + after_s
        for client in list(self.gateway.shell.clients.all):
            client.sweep(now)

    def outcomes(self, outcome: str, **labels: str) -> float:
        """How many waits ended so."""
        name = "headgate_gateway_flow_control_requests_total"
        return self.gateway.metric(name, outcome=outcome, **labels)


@pytest.fixture
def start_pool(start_gateway, endpoint, eventually):
    """Starts a gateway with these settings before `endpoint`, which has room for one request."""

    async def start(**settings) -> Pool:
        gateway = await start_gateway(endpoint, settings=ROOM_FOR_ONE | settings)
        gateway.shell._sweeper.cancel()  # whoever goes is woken by what happens, and not once a second
        gauges.add_gauges(gateway.registry, gateway.shell.queues, "headgate_gateway")
        return Pool(gateway, endpoint, eventually)

    return start


@pytest.fixture
async def pool(start_pool) -> Pool:
    return await start_pool()
