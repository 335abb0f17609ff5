"""Pods that a pool selects, but that are no endpoints: why a request cannot go there.

Routing knows ready Pods only; who asks why one of them gets nothing wants to hear of the others too.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headgate import api, routing
from headgate.gateway.explanation import Explanation

MAX_SHOWN = 20
"""Named of each pool."""


def told(found: Explanation, pools: Iterable[routing.PoolObject], pods: Iterable[api.Pod]) -> Explanation:
    """The explanation with the Pods that are missing from its targets."""
    by_name = {routing.name_of(routing.ref_of(pool)): pool for pool in pools}
    every = list(pods)
    targets = tuple(
        msgspec.structs.replace(target, absent=_absent(by_name.get(target.model_server), every))
        for target in found.targets
    )
    return msgspec.structs.replace(found, targets=targets)


def _absent(pool: routing.PoolObject | None, pods: list[api.Pod]) -> tuple[str, ...]:
    if pool is None:
        return ()
    namespace, labels = routing.selector_of(pool)
    found = [
        f"{pod.metadata.key}: {why}"
        for pod in pods
        if pod.metadata.namespace == namespace
        and labels
        and labels.items() <= pod.metadata.labels.items()
        and (why := _why(pod))
    ]
    found.sort()
    more = (f"and {len(found) - MAX_SHOWN} more",) if len(found) > MAX_SHOWN else ()
    return (*found[:MAX_SHOWN], *more)


def _why(pod: api.Pod) -> str:
    """Why a Pod is no endpoint; "" if it is one."""
    if pod.metadata.deletion_timestamp is not None:
        return "is being deleted"
    status = pod.status
    if pod.ended:
        return f"has ended: {status.phase}"
    condition = next((each for each in status.conditions if each.type == "Ready"), None)
    if condition is None or condition.status != "True":
        message = condition.message if condition is not None else ""
        phase = f" ({status.phase})" if status.phase else ""
        return f"is not ready{phase}{f': {message}' if message else ''}"
    return "" if status.pod_ip else "has no address"
