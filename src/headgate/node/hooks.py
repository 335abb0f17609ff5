"""Lifecycle hooks of containers: postStart and preStop."""

from __future__ import annotations

import asyncio

from headgate.node import pod_spec, prober

NO_LIMIT_S = 365 * 24 * 3600.0
"""A postStart hook may take as long as it wants; the Pod can still be deleted."""


async def run(
    hook: pod_spec.Hook, target: prober.ProbeTarget, execute: prober.Execute, limit_s: float
) -> str:
    """The problem, or "" for success. Never raises."""
    if hook.exec is not None:
        answer = await execute(hook.exec.command, limit_s)
    elif hook.http_get is not None:
        answer = await prober.http_get(hook.http_get, target, limit_s)
    elif hook.sleep is not None:
        await asyncio.sleep(min(hook.sleep.seconds, limit_s))
        return ""
    else:
        return ""  # Kubernetes accepts hooks with tcpSocket, but does nothing
    return "" if answer.healthy else answer.detail
