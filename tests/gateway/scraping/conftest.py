"""Engines with scripted metrics pages, and a gateway that reads them all the time."""

import asyncio
import json

import pytest

QUICK = {
    "engine_metrics_interval_s": 0.05,
    "engine_metrics_busy_interval_s": 0.02,
    "engine_metrics_max_per_s": 1000,
}
"""A hundred looks in a second or two, so that a test of many looks takes no longer."""


class Engine:
    """What an endpoint answers to GET /metrics and GET /v1/models."""

    def __init__(self):
        self.page = "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\n"
        self.models = ["base"]
        self.status = "200 OK"
        self.asked = []

    def __call__(self, call):
        self.asked.append(call.target)
        if call.target == "/v1/models":
            call.answer(json.dumps({"data": [{"id": name} for name in self.models]}).encode())
        else:
            call.answer(self.page.encode(), self.status)


@pytest.fixture
def engine():
    """An idle vLLM."""
    return Engine()


@pytest.fixture
def start_looking(start_gateway):
    """Starts a gateway that looks at these endpoints; gives it with the load of the first."""

    async def start(*endpoints, settings=None, **pool):
        gateway = await start_gateway(*endpoints, settings=QUICK | (settings or {}), **pool)
        gateway.shell.scraper.start()
        return gateway

    return start


@pytest.fixture
def looked(eventually):
    """Waits until an endpoint was looked at a few times more."""

    async def wait(engine, times=2):
        before = engine.asked.count("/metrics")
        await eventually(lambda: engine.asked.count("/metrics") >= before + times)
        await asyncio.sleep(0)

    return wait
