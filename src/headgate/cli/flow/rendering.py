"""Queues for a person: what each pool has room for, and who waits in it, the next first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from headgate.flow.queue import BandRow
from headgate.gateway.queueing.shown import QueueShown

SHOWN_FLOWS = 20
_NO_BOUND = "no bound"


def as_json(pools: Mapping[str, QueueShown]) -> str:
    return msgspec.json.format(msgspec.json.encode(pools), indent=2).decode() + "\n"


def as_text(pools: Mapping[str, QueueShown]) -> str:
    blocks = ["\n".join(_plain(line) for line in _pool(name, pools[name])) for name in sorted(pools)]
    return "\n\n".join(blocks) + "\n" if blocks else "The gateway has no pools.\n"


def _pool(name: str, shown: QueueShown) -> Iterator[str]:
    queue = shown.queue
    yield (
        f"{name}: endpoints {shown.endpoints}, in flight {shown.in_flight}, "
        f"saturation {queue.saturation:.2f}, waiting {queue.requests}"
    )
    if not shown.is_on:
        yield "    flow control is off: nothing waits"
    elif shown.why:
        yield f"    a request that comes now would wait: {shown.why}"
    if not queue.requests:
        return
    drain = f", {queue.drain_per_s:.0f} of them leave in a second" if queue.drain_per_s else ""
    yield f"    {queue.bytes} bytes, {queue.work} tokens of work{drain}"
    for band in queue.bands:
        if band.requests:
            yield from _band(band)


def _band(band: BandRow) -> Iterator[str]:
    most = str(band.max_requests) if band.max_requests else _NO_BOUND
    yield (
        f"    priority {band.priority}: waiting {band.requests} (most: {most}), the oldest for "
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
        yield f"        the oldest is of {oldest.flow}: {oldest.why}"


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield (
            "        "
            + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def _plain(line: str) -> str:
    """Safe to print: clients make up the names of flows."""
    if line.isprintable():
        return line
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in line)
