"""One gateway of bench/limits_redis.py: the data path with one route whose limit is counted in Redis.

Its first line of output is its port; at the end of its input, it prints its costs and exits.
"""

from __future__ import annotations

import asyncio
import functools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from headgate import api, garbage, routing
from headgate.dataplane.records.recorder import Recorder
from headgate.gateway import GatewaySettings
from headgate.gateway.listener import ClientConnection
from headgate.gateway.shell import Shell
from headgate.telemetry import Registry

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
    settings = GatewaySettings().replace(engine_metrics_enabled=False, rate_limits_wait_s=wait_s)
    shell = Shell(settings, Recorder(Registry(), None), loop)
    server = await loop.create_server(
        functools.partial(ClientConnection, shell.services, shell.clients), "127.0.0.1", 0
    )
    shell.use(snapshot(engine_port, redis, limit, unit_s))
    shell.plane.is_ready = True
    (source,) = shell.services.limit_sources.all()
    while not source.exchanges.count:  # noqa: ASYNC110 - there is no notification
        await asyncio.sleep(0.01)
    print(server.sockets[0].getsockname()[1], flush=True)
    waits = Waits(shell)
    garbage.spare_what_there_is()
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()
    cpu_s = time.process_time()
    await shell.close()
    told = {"cpu_s": cpu_s, "longest_wait_alone_s": waits.longest_s}
    print(json.dumps(source.statistics() | told), flush=True)


class Waits:
    """How long requests waited for leases, less the time in which this process was not scheduled."""

    def __init__(self, shell: Shell) -> None:
        self.longest_s = 0.0
        self._wait = shell.services.limit_sources.wait
        shell.services.limit_sources.wait = self.wait

    def wait(self, limit: Any, input_tokens: int, output_tokens: int, then: Callable[[], None]) -> Any:
        began, without = time.monotonic(), without_processor_s()

        def ended() -> None:
            waited_s = time.monotonic() - began - (without_processor_s() - without)
            self.longest_s = max(self.longest_s, waited_s)
            then()

        return self._wait(limit, input_tokens, output_tokens, ended)


def without_processor_s() -> float:
    """How long this process was ready to run but not scheduled."""
    return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    uvloop.run(main(**arguments))
