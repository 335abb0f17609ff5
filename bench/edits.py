"""The cost of one edit for a gateway with many ModelRoutes: `python bench/edits.py`.

CPU time of one process without sockets: an edit is decoded like a watch event, translated, and put into
effect. Each number is the median of several edits.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from typing import TypeVar

import msgspec

from headgate import api, routing
from headgate.dataplane.records.recorder import Recorder
from headgate.gateway import GatewaySettings
from headgate.gateway.shell import Shell
from headgate.telemetry import Registry

ROUTES = (100, 1_000, 10_000)
SERVERS, PODS, EDITS = 20, 100, 50
GOAL_MS = 20.0

_Kind = TypeVar("_Kind", api.ModelRoute, api.ModelServer)


def main() -> None:
    print("CPU ms for one change, median (most), by the number of ModelRoutes")
    print(f"{'':24}" + "".join(f"{count:>18,}" for count in ROUTES))
    rows = [asyncio.run(_measured(count)) for count in ROUTES]
    for what in rows[0]:
        cells = (f"{statistics.median(row[what]):.2f} ({max(row[what]):.2f})" for row in rows)
        print(f"{what:24}" + "".join(f"{cell:>18}" for cell in cells))
    worst = statistics.median(rows[-1]["edit of a route"])
    print(f"Goal: an edit takes at most {GOAL_MS:g} ms at {ROUTES[-1]:,} routes: {worst:.1f} ms")


async def _measured(count: int) -> dict[str, list[float]]:
    shell = Shell(GatewaySettings(), Recorder(Registry(), None), asyncio.get_running_loop())
    translator = routing.Translator()
    for number in range(SERVERS):
        _put_server(translator, number)
    for number in range(PODS):
        _put_pod(translator, _pod(number, is_ready=True))
    for number in range(count):
        _put(translator, _route(number, 1), api.ModelRoute)
    found: dict[str, list[float]] = {}

    def measure(what: str, change: Callable[[int], object]) -> None:
        took = found.setdefault(what, [])
        for number in range(EDITS):
            began = time.process_time()
            change(number)
            shell.use(translator.snapshot(), translator.step)
            took.append(1000 * (time.process_time() - began))

    def edit_and_list(number: int) -> None:
        _put(translator, _route(number, number), api.ModelRoute)
        shell.services.models.body()

    began = time.process_time()
    shell.use(translator.snapshot())
    found["start"] = [1000 * (time.process_time() - began)]
    measure("edit of a route", lambda n: _put(translator, _route(n, 2), api.ModelRoute))
    measure("a new route", lambda n: _put(translator, _route(count + n, 1), api.ModelRoute))
    measure("a route that goes", lambda n: translator.put(_ref("ModelRoute", f"r{count + n}"), None))
    measure("a Pod that is not ready", lambda n: _put_pod(translator, _pod(n, is_ready=False)))
    measure("edit of a ModelServer", lambda n: _put_server(translator, n % SERVERS, f"m{n}"))
    measure("GET of a model", lambda n: shell.services.models.entry(f"m{n}"))
    measure("GET of all after an edit", edit_and_list)
    await shell.close()
    return found


def _put(translator: routing.Translator, encoded: bytes, kind: type[_Kind]) -> None:
    obj = msgspec.json.decode(encoded, type=kind)
    translator.put(_ref(kind.resource.kind, obj.metadata.name), obj)


def _put_server(translator: routing.Translator, number: int, model: str = "") -> None:
    _put(translator, _server(number, model), api.ModelServer)


def _put_pod(translator: routing.Translator, encoded: bytes) -> None:
    pod = msgspec.json.decode(encoded, type=api.Pod)
    translator.put_pod(pod.metadata.key, pod)


def _ref(kind: str, name: str) -> api.ObjectRef:
    return api.ObjectRef(kind, "default", name)


def _metadata(name: str) -> dict[str, object]:
    return {"name": name, "namespace": "default", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}


def _route(number: int, weight: int) -> bytes:
    targets = [
        {"modelServerName": f"s{number % SERVERS}", "weight": weight},
        {"modelServerName": f"s{(number + 1) % SERVERS}", "weight": 100},
    ]
    spec = {
        "modelName": f"m{number}",
        "loraAdapters": [f"m{number}-adapter"],
        "rules": [
            {"modelMatch": {"headers": {"x-tier": {"regex": "^(gold|silver)$"}}}, "targetModels": targets},
            {"targetModels": targets[:1]},
        ],
        "rateLimit": {"inputTokensPerUnit": 1000, "unit": "minute"},
    }
    return msgspec.json.encode({"metadata": _metadata(f"r{number}"), "spec": spec})


def _server(number: int, model: str = "") -> bytes:
    selector = {"matchLabels": {"app": f"s{number}"}}
    spec = {"inferenceEngine": "vLLM", "workloadSelector": selector, "model": model}
    return msgspec.json.encode({"metadata": _metadata(f"s{number}"), "spec": spec})


def _pod(number: int, *, is_ready: bool) -> bytes:
    metadata = _metadata(f"p{number}") | {"labels": {"app": f"s{number % SERVERS}"}}
    ready = {"type": "Ready", "status": "True" if is_ready else "False"}
    status = {"podIP": f"127.0.1.{number}", "conditions": [ready]}
    return msgspec.json.encode({"metadata": metadata, "status": status})


if __name__ == "__main__":
    main()
