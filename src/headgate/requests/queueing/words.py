"""Words for clients and operators about requests that wait for a pool without endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.routing import Start


def why_without_endpoints(ttl_s: float, starts_in_s: float | None, start: Start | None) -> str:
    """What a request waits for; empty if it is rejected at once. `ttl_s`: how long it may wait."""
    if not ttl_s:
        return ""
    if start is None or starts_in_s is None:
        return f"no endpoint is ready: it waits up to {ttl_s:g} s for one"
    if starts_in_s > ttl_s:
        return ""
    return (
        f"no endpoint is ready: requests start the pool, which is expected to take {starts_in_s:.0f} s; "
        f"it waits up to {ttl_s:g} s"
    )


def progress_without_endpoints(starts_in_s: float | None) -> str:
    """The progress of a queued request."""
    if starts_in_s is None:
        return "queued, no endpoint is ready yet"
    return f"queued, the model is being started, about {max(starts_in_s, 1.0):.0f} s"
