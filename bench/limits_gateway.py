"""One gateway of bench/limits_redis.py: the data path with one route, whose limit is counted in Redis.

Its first line says on which port it serves; at the end of its input it says what it cost, and ends.
"""

from __future__ import annotations

import asyncio
import functools
import json
import sys
import time

import uvloop

from headgate import api, routing
from headgate.gateway import GatewaySettings
from headgate.gateway.listener import ClientConnection
from headgate.gateway.proxy import Proxy
from headgate.gateway.recorder import Recorder
from headgate.telemetry import Registry

STEP_S = 0.005
KEY = api.ObjectRef("ModelServer", "default", "pool")
ROUTE = api.ObjectRef("ModelRoute", "default", "route")


def snapshot(engine_port: int, redis: str, limit: int, unit_s: int) -> routing.Snapshot:
    limits = routing.TokenLimits(input=limit, unit="unit", unit_s=unit_s, redis_address=redis)
    rule = routing.Rule("rule", None, (routing.Target(KEY, 100),))
    route = routing.Route(
        key=ROUTE, name="default/route", model="m", adapters=(), rules=(rule,), limits=limits
    )
    pool = routing.Pool(key=KEY, endpoints=(routing.Endpoint("engine", "127.0.0.1", engine_port),))
    return routing.Snapshot(models={"m": (route,)}, adapters={}, pools={KEY: pool})


async def main(engine_port: int, redis: str, limit: int, unit_s: int, wait_s: float) -> None:
    loop = asyncio.get_running_loop()
    settings = GatewaySettings(engine_metrics=False, rate_limit_wait_s=wait_s)
    proxy = Proxy(settings, Recorder(Registry(), None), loop)
    server = await loop.create_server(functools.partial(ClientConnection, proxy), "127.0.0.1", 0)
    proxy.use(snapshot(engine_port, redis, limit, unit_s))
    proxy.is_ready = True
    (source,) = proxy.limit_sources.all()
    while not source.exchanges:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.01)
    print(server.sockets[0].getsockname()[1], flush=True)
    stalls = Stalls()
    watching = loop.create_task(stalls.watch())
    await loop.run_in_executor(None, sys.stdin.read)
    watching.cancel()
    server.close()
    cpu_s = time.process_time()
    await proxy.close()
    print(json.dumps(source.statistics() | {"cpu_s": cpu_s, "longest_stall_s": stalls.longest_s}), flush=True)


class Stalls:
    """How long the process got nothing done, for want of a processor."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(STEP_S)
            self.longest_s = max(self.longest_s, loop.time() - before - STEP_S)


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    uvloop.run(main(**arguments))
