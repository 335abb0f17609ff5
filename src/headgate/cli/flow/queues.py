"""Fetch the queues of a running gateway from its admin port, merge those of its workers, and print them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import click
import httpx2
import msgspec

from headgate import admin_token
from headgate.cli import machine_state
from headgate.cli.objects.printing import escaped
from headgate.dataplane.queueing.queue_shown import QueueShown
from headgate.flow.queue import BandRow, FlowRow, QueueView, RequestRow

# Merge the queues of all workers of a gateway: each worker queues its own share of the requests.
MAX_REQUESTS = 20
"""Shown for each band."""


def merged(queues: Sequence[QueueShown]) -> QueueShown:
    """Merge one or more queues of the same pool. Counts are added; of values that each worker measures for
    itself, such as saturation, the largest is used.
    """
    first = queues[0]
    if len(queues) == 1:
        return first
    views = [each.queue for each in queues]
    fullest = max(queues, key=lambda each: each.queue.saturation)
    return QueueShown(
        worker=first.worker,
        is_on=first.is_on,
        endpoints=max(each.endpoints for each in queues),
        in_flight=sum(each.in_flight for each in queues),
        why=fullest.why or next((each.why for each in queues if each.why), ""),
        queue=QueueView(
            requests=sum(view.requests for view in views),
            bytes=sum(view.bytes for view in views),
            work=sum(view.work for view in views),
            saturation=fullest.queue.saturation,
            drain_per_s=sum(view.drain_per_s for view in views),
            is_without_endpoints=any(view.is_without_endpoints for view in views),
            bands=_bands(band for view in views for band in view.bands),
        ),
    )


def _bands(bands: Iterable[BandRow]) -> list[BandRow]:
    """Merge bands of the same priority; highest priority first."""
    by_priority: dict[int, list[BandRow]] = {}
    for band in bands:
        by_priority.setdefault(band.priority, []).append(band)
    return [_merged_band(by_priority[priority]) for priority in sorted(by_priority, reverse=True)]


def _merged_band(parts: list[BandRow]) -> BandRow:
    if len(parts) == 1:
        return parts[0]
    first = sorted((row for part in parts for row in part.first), key=lambda row: -row.waits_s)
    return msgspec.structs.replace(
        parts[0],
        requests=sum(part.requests for part in parts),
        bytes=sum(part.bytes for part in parts),
        work=sum(part.work for part in parts),
        oldest_s=max(part.oldest_s for part in parts),
        has_room=all(part.has_room for part in parts),
        credit=sum(part.credit for part in parts),
        flows=_flows(flow for part in parts for flow in part.flows),
        first=_oldest(first),
    )


def _oldest(rows: list[RequestRow]) -> list[RequestRow]:
    return rows[:MAX_REQUESTS]


def _flows(flows: Iterable[FlowRow]) -> list[FlowRow]:
    """Merge flows of the same name; longest queue first. A flow's position is per worker."""
    by_name: dict[str, list[FlowRow]] = {}
    for flow in flows:
        by_name.setdefault(flow.name, []).append(flow)
    found = [
        msgspec.structs.replace(
            parts[0],
            requests=sum(part.requests for part in parts),
            bytes=sum(part.bytes for part in parts),
            work=sum(part.work for part in parts),
            oldest_s=max(part.oldest_s for part in parts),
            standing="; ".join(dict.fromkeys(part.standing for part in parts if part.standing)),
        )
        for parts in by_name.values()
    ]
    return sorted(found, key=lambda flow: -flow.requests)


# Fetching: from the admin port of a running gateway.
PATIENCE_S = 10.0


def of_machine(said: Path | None, state: Path) -> str:
    """The admin port that `headgate up` recorded; raises ClickException if `said`, a --state, has none."""
    try:
        return machine_state.gateway_urls(state)[0]
    except OSError as error:
        if said is None:
            return machine_state.DEFAULT_GATEWAY
        told = f"no gateway is recorded in {state}: {error.strerror}: {error.filename}"
        raise click.ClickException(f"{told}\nStart one with `headgate up --state {state}`.") from error


def ask(url: str, pool: str | None) -> dict[str, QueueShown]:
    """The queue of each pool, or of the pools named `pool`. Raises ClickException."""
    return _chosen(_ask(url), pool)


def _chosen(pools: dict[str, QueueShown], pool: str | None) -> dict[str, QueueShown]:
    if pool is None:
        return pools
    # An InferencePool can also be named with its kind, because a ModelServer may have the same name.
    chosen = {name: shown for name, shown in pools.items() if name == pool or name.endswith(f"/{pool}")}
    if not chosen:
        known = ", ".join(sorted(pools)) or "none"
        raise click.ClickException(f"the gateway has no pool {pool!r}; it has: {known}")
    return chosen


def _ask(url: str) -> dict[str, QueueShown]:
    """The gateway's queues by pool, one for each worker."""
    base = url.rstrip("/") if "://" in url else f"http://{url}".rstrip("/")
    try:
        response = httpx2.get(
            f"{base}/debug/flow", timeout=PATIENCE_S, trust_env=False, headers=admin_token.headers()
        )
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise click.ClickException(
            f"no response from the gateway at {base}: {error}\n"
            f"--gateway is the address of its admin port, by default {machine_state.DEFAULT_GATEWAY}."
        ) from error
    if response.status_code != 200:
        raise click.ClickException(
            f"{base} returned {response.status_code}: {response.text[:500]}\n"
            f"{admin_token.hint(response.status_code, machine_state.DEFAULT_GATEWAY)}"
        )
    try:
        told = msgspec.json.decode(response.content, type=dict[str, msgspec.Raw])
        told.pop("no_answer", None)  # workers that did not respond have no queues to merge
        queues = {name: msgspec.json.decode(raw, type=list[QueueShown]) for name, raw in told.items()}
    except msgspec.DecodeError as error:
        raise click.ClickException(f"{base} returned no valid list of queues: {error}") from error
    return {name: merged(each) for name, each in queues.items() if each}


# Rendering: the capacity of each pool and its queued requests, next to be served first.
SHOWN_FLOWS = 20
_NO_BOUND = "no bound"


def as_json(pools: Mapping[str, QueueShown]) -> str:
    return msgspec.json.format(msgspec.json.encode(pools), indent=2).decode() + "\n"


def as_text(pools: Mapping[str, QueueShown]) -> str:
    blocks = ["\n".join(escaped(line) for line in _pool(name, pools[name])) for name in sorted(pools)]
    return "\n\n".join(blocks) + "\n" if blocks else "The gateway has no pools.\n"


def _pool(name: str, shown: QueueShown) -> Iterator[str]:
    queue = shown.queue
    yield (
        f"{name}: endpoints {shown.endpoints}, in flight {shown.in_flight}, "
        f"saturation {queue.saturation:.2f}, waiting {queue.requests}"
    )
    if shown.why:
        yield f"    a new request would be queued: {shown.why}"
    elif not shown.is_on:
        yield "    flow control is off: requests are not queued"
    if not queue.requests:
        return
    drain = f", draining {queue.drain_per_s:.0f} tokens per second" if queue.drain_per_s else ""
    yield f"    {queue.bytes} bytes, {queue.work} tokens of work{drain}"
    for band in queue.bands:
        if band.requests:
            yield from _band(band)


def _band(band: BandRow) -> Iterator[str]:
    most = str(band.max_requests) if band.max_requests else _NO_BOUND
    yield (
        f"    priority {band.priority}: {band.requests} waiting (limit: {most}), the oldest for "
        f"{band.oldest_s:.1f} s; {band.fairness}, {band.ordering}"
    )
    rows = [("FLOW", "WAITING", "TOKENS", "WEIGHT", "OLDEST", "STANDING")]
    rows += [
        (
            flow.name,
            str(flow.requests),
            str(flow.work),
            f"{flow.weight:g}",
            f"{flow.oldest_s:.1f}s",
            flow.standing,
        )
        for flow in band.flows[:SHOWN_FLOWS]
    ]
    yield from _table(rows)
    if len(band.flows) > SHOWN_FLOWS:
        yield f"        and {len(band.flows) - SHOWN_FLOWS} more flows"
    if band.first:
        oldest = band.first[0]
        yield f"        the oldest is from {oldest.flow}: {oldest.why}"


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield (
            "        "
            + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )
