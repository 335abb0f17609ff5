"""The row of a Pod: what its containers are doing, in a word."""

from __future__ import annotations

import datetime
from typing import Any

from headgate.apiserver.tables.ages import age, since
from headgate.apiserver.tables.values import NONE, condition

Object = dict[str, Any]


def row(pod: Object, now: datetime.datetime) -> list[Any]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    containers = status.get("containerStatuses") or []
    ready = sum(bool(c.get("ready")) for c in containers)
    ips = status.get("podIP") or NONE
    node = spec.get("nodeName") or NONE
    gates = spec.get("readinessGates") or []
    return [
        f"{ready}/{len(spec.get('containers') or [])}",
        _pod_status(pod, containers),
        _restarts(containers, now),
        age(pod, now),
        ips,
        node,
        status.get("nominatedNodeName") or NONE,
        _gates(gates, status.get("conditions") or []) if gates else NONE,
    ]


def _pod_status(pod: Object, containers: list[Object]) -> str:
    status = pod.get("status") or {}
    shown: str = status.get("reason") or status.get("phase") or "Unknown"
    running = False
    for container in reversed(containers):
        state = container.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            shown = waiting["reason"]
        elif terminated is not None:
            signal, code = terminated.get("signal"), terminated.get("exitCode", 0)
            shown = terminated.get("reason") or (f"Signal:{signal}" if signal else f"ExitCode:{code}")
        elif container.get("ready") and "running" in state:
            running = True
    if shown == "Completed" and running:
        shown = "Running" if condition(status, "Ready") == "True" else "NotReady"
    if "deletionTimestamp" in pod["metadata"]:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return shown


def _restarts(containers: list[Object], now: datetime.datetime) -> str:
    count = sum(c.get("restartCount", 0) for c in containers)
    ends = [
        end
        for c in containers
        if (end := ((c.get("lastState") or {}).get("terminated") or {}).get("finishedAt"))
    ]
    return f"{count} ({since(max(ends), now)} ago)" if count and ends else str(count)


def _gates(gates: list[Object], conditions: list[Object]) -> str:
    true = {c.get("type") for c in conditions if c.get("status") == "True"}
    return f"{sum(gate.get('conditionType') in true for gate in gates)}/{len(gates)}"
