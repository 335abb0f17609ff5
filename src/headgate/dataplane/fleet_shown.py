"""Every endpoint in a few figures, for the dashboard: `/debug/fleet`.

It is asked for every few seconds while somebody looks, so it costs a few microseconds for each endpoint;
`/debug/endpoints` has all details.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from headgate import engines, fleet
from headgate.requests import health

if TYPE_CHECKING:
    from headgate.fleet.prefix import PrefixIndex
    from headgate.observe.scraper import Scraper
    from headgate.requests.pool_state import PoolState

MAX_ENDPOINTS: Final = 5000
"""Rows of one worker; a larger fleet is shown in part, and the page says so."""
SHOWN_CHARACTERS: Final = 256
"""Of what engines and objects say."""


class EndpointRow(msgspec.Struct, frozen=True, array_like=True):
    """One endpoint, as one worker sees it."""

    pool: str
    name: str
    address: str
    engine: str
    state: str
    """One word, as in `/debug/endpoints`."""
    why: str
    """Why it gets no or fewer requests; empty if it is healthy."""
    requests: int
    """Requests of this worker in flight on it."""
    elsewhere: int
    """Requests of other gateways, as far as these report them."""
    queue_s: float
    """Seconds of work in front of a new request."""
    running: int | None
    """Requests in the engine's batches, by its own account."""
    waiting: int | None
    kv_usage: float | None
    """Share of its KV cache in use, 0 to 1."""
    prefix_blocks: int
    """Blocks of prompts that it is believed to have cached."""
    started: int
    """Requests that this worker has sent to it."""
    failures: int
    reading: str
    """Whether its metrics are read: `fresh`, `stale`, `missing` or `off`."""
    problem: str = ""
    """Why they are not."""


class Fleet(msgspec.Struct, frozen=True):
    """`/debug/fleet`."""

    endpoints: list[EndpointRow]
    total: int
    """All endpoints, also those beyond MAX_ENDPOINTS."""


def shown(pools: Iterable[PoolState], prefixes: PrefixIndex, scraper: Scraper, now: float) -> Fleet:
    """All pools of a process, up to MAX_ENDPOINTS endpoints."""
    rows: list[EndpointRow] = []
    total = 0
    for pool in pools:
        total += len(pool.loads)
        out = fleet.ejected(pool.loads, now)
        for load in pool.loads[: MAX_ENDPOINTS - len(rows)]:
            rows.append(_row(pool, load, load in out, prefixes, scraper, now))
    return Fleet(rows, total)


def _row(
    pool: PoolState,
    load: fleet.EndpointState,
    is_ejected: bool,
    prefixes: PrefixIndex,
    scraper: Scraper,
    now: float,
) -> EndpointRow:
    state, reading = health.state(load, is_ejected, now), load.reading
    watch = scraper.watch(load)
    return EndpointRow(
        pool=pool.name,
        name=load.endpoint.name,
        address=load.endpoint.address,
        engine=engines.of_pod(load.labels, pool.pool.engine).name,
        state=state,
        why="" if state == "healthy" else _why(load, state, now)[:SHOWN_CHARACTERS],
        requests=load.own_requests,
        elsewhere=load.elsewhere.requests,
        queue_s=round(load.estimator.queue_s(now), 3),
        running=reading.running if reading is not None else None,
        waiting=reading.waiting if reading is not None else None,
        kv_usage=round(reading.kv_usage, 3) if reading is not None and reading.kv_usage is not None else None,
        prefix_blocks=prefixes.blocks(load),
        started=load.started,
        failures=load.failures,
        reading=watch.state(now) if watch is not None else "off",
        problem=(watch.problem or "")[:SHOWN_CHARACTERS] if watch is not None else "",
    )


def _why(load: fleet.EndpointState, state: str, now: float) -> str:
    if state == "ejected":
        return f"gets no requests for another {load.ejection.until - now:.0f} s, after {health.why(load)}"
    if state == "needed":
        return f"serves although it fails, as too few others are left: after {health.why(load)}"
    if state == "resting":
        return f"asked for no requests for another {load.resting_until - now:.0f} s (Retry-After)"
    if state == "returning":
        return f"gets {load.share(now):.0%} of its share of requests, after it was ejected"
    return f"picked only if no other is left, as it has just failed: {', '.join(load.reasons[-1:])}"
