"""Requests in flight and the states of endpoints, for `/debug/requests` and `/debug/endpoints`.

Computed on request; the data path keeps nothing for it.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import msgspec

from headgate import engines, fleet
from headgate.requests import health

if TYPE_CHECKING:
    from headgate.gateway.clients import Client
    from headgate.gateway.shell import Shell
    from headgate.observe.watch import Watch
    from headgate.requests.pool_state import PoolState

DEFAULT_LIMIT = 100
MAX_LIMIT = 10_000
SHOWN_CHARACTERS = 256
"""Of names and paths that clients choose."""

Shown = dict[str, Any]


def requests(shell: Shell, limit: int = DEFAULT_LIMIT) -> Shown:
    """The requests that are being read or served, or wait behind another one of their connection.

    At most `limit` requests, oldest first; `total` counts all.
    """
    now = shell.now()
    found: list[tuple[float, int, Client]] = []
    waiting = 0
    for place, client in enumerate(shell.clients.all):
        waiting += client.waiting
        since = client.exchange.request.arrived_at if client.exchange is not None else client.reading_since
        if since is not None:
            found.append((since, place, client))
    oldest = heapq.nsmallest(limit, found)
    return {
        "total": len(found) + waiting,
        "sent_ahead": waiting,
        "requests": [_request(client, now - since) for since, _, client in oldest],
    }


def _request(client: Client, age_s: float) -> Shown:
    shown: Shown = {"client": client.address, "age_s": round(age_s, 3)}
    exchange = client.exchange
    if exchange is None:
        return shown | {"phase": "reading"}
    request, life = exchange.request, exchange.life
    account, decision, pool, load, wait = life.account, life.decision, life.pool, life.load, life.wait
    match = decision.match
    now = request.arrived_at + age_s
    return shown | {
        "client": request.client_address,
        "phase": life.phase,
        "id": exchange.request_id.decode("latin-1"),
        "method": request.method.decode("latin-1"),
        "path": request.path[:SHOWN_CHARACTERS],
        "model": decision.model[:SHOWN_CHARACTERS],
        "stream": decision.stream,
        "route": match.route.name if match is not None else None,
        "pool": pool.name if pool is not None else None,
        "endpoint": load.endpoint.name if load is not None else None,
        "address": load.endpoint.address if load is not None else None,
        "prefill": life.pairing.told() if life.pairing is not None else None,
        "priority": decision.scheduled.priority,
        "flow": wait.place.flow if wait is not None else None,
        "queued_s": round(wait.seconds(now), 3) if wait is not None else 0,
        "start_wait_s": round(wait.start_seconds(now), 3) if wait is not None else 0,
        "attempts": account.attempts,
        "status": account.status or None,
        "prompt_tokens_estimate": decision.scheduled.prompt_tokens,
        "bytes": exchange.bytes_so_far,
        "first_byte_s": (
            round(account.first_byte_at - request.arrived_at, 3) if account.first_byte_at else None
        ),
        "is_client_slow": client.is_paused,
        "bytes_to_come": exchange.bytes_to_come,
        "sent_ahead": client.waiting,
    }


def endpoints(shell: Shell) -> Shown:
    """Every endpoint of every pool: its work, its health, its connections."""
    now = shell.now()
    return {pool.name: _pool(shell, pool, now) for pool in shell.plane.pools.values()}


def _pool(shell: Shell, pool: PoolState, now: float) -> list[Shown]:
    out = fleet.ejected(pool.loads, now)
    return [
        _endpoint(pool, load, load in out, now)
        | {"engine": engines.of_pod(load.labels, pool.pool.engine).name}
        | {"reading": _reading(shell.scraper.watch(load), now), "prefix": _prefix(shell, load, now)}
        for load in pool.loads
    ]


def _endpoint(pool: PoolState, load: fleet.EndpointState, is_ejected: bool, now: float) -> Shown:
    connections = pool.connections.get(load)
    return {
        "name": load.endpoint.name,
        "address": load.endpoint.address,
        "state": health.state(load, is_ejected, now),
        "requests": load.requests,
        "work_tokens": load.work_tokens,
        "output_tokens_expected": load.output_tokens,
        "estimate": _estimate(load.estimator, now),
        "adapters_lacking": sorted(load.models.lacking),
        "not_served": [{"model": model, "path": path} for model, path in sorted(load.models.unserved)],
        "requests_started": load.started,
        "failures": load.failures,
        "failures_in_row": load.failures_in_row,
        "last_failures": list(load.reasons),
        "last_failure_s_ago": round(now - load.failed_at, 3) if load.failures else None,
        "ejections": load.ejection.count,
        "ejected_for_another_s": round(load.ejection.until - now, 3) if is_ejected else 0,
        "ejected_after": health.why(load) if load.ejection.until > now else None,
        "resting_for_another_s": round(max(load.resting_until - now, 0), 3),
        "share": load.share(now) or float(not is_ejected),
        "connections": connections.statistics() if connections is not None else {"open": 0, "idle": 0},
    }


def _estimate(estimator: fleet.Estimator, now: float) -> Shown:
    """The inputs of first-token predictions."""
    rates = estimator.rates
    return {
        "queue_s": round(estimator.queue_s(now), 4),
        "delay_s": round(rates.delay_s, 4),
        "prefill_tokens_per_s": round(1.0 / rates.token_s),
        "decode_step_s": round(rates.step_s, 5) or None,
        "decoding": estimator.decoding.count,
        "decoding_adds_s": round(rates.beside_s, 6),
        "adapter_load_s": round(rates.pool.adapter_s, 4),
        "handover_s": round(rates.pool.handover_s(0), 4),
        "handover_tokens_per_s": round(1.0 / rates.pool.handover_token_s),
        "observations": rates.observations,
        "source": "ledger and reading" if estimator.is_told else "ledger",
    }


def _prefix(shell: Shell, load: fleet.EndpointState, now: float) -> Shown:
    """The expected content of its cache."""
    prefixes = shell.plane.prefixes
    oldest_at = prefixes.oldest_at(load)
    events = shell.kv_events.shown(load, now)
    return {
        "source": "events" if events is not None and events["state"] == "live" else "approximate",
        "blocks": prefixes.blocks(load),
        "limit": prefixes.limit_of(load),
        "oldest_age_s": None if oldest_at is None else round(now - oldest_at, 3),
        "events": events,
    }


def _reading(watch: Watch | None, now: float) -> Shown:
    """The engine's last reading, whether it is used or not."""
    if watch is None:
        return {"state": "off"}
    shown: Shown = {"state": watch.state(now), "problem": watch.problem or None}
    reading = watch.observation.reading
    if reading is None:
        return shown
    told = msgspec.to_builtins(reading)
    del told["ttft_since"], told["first_tokens"]
    for name in ("at", "ttft_at", "tpot_at"):
        at = told.pop(name)
        told[name.removesuffix("at") + "age_s"] = None if at is None else round(now - at, 3)
    # Sort names, and omit unknown values.
    return shown | {
        name: sorted(value) if isinstance(value, list) else value
        for name, value in told.items()
        if value is not None
    }
