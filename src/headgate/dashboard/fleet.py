"""The page of endpoints: merges what workers tell of each, and shows the part that was asked for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import msgspec

from headgate import api, routing
from headgate.dashboard.sources import Pages
from headgate.dataplane.fleet_shown import EndpointRow, Fleet
from headgate.requests.pool_signals import Page, PoolSignals, merged_by_pool

PAGE_ROWS: Final = 50
POOL_ROWS: Final = 20
MAX_CHARACTERS: Final = 256
"""Of a search."""
MAX_UNSERVED: Final = 20
OUT: Final = ("ejected", "resting")
SEVERITY: Final = ("ejected", "resting", "needed", "returning", "avoided", "healthy")
"""States, worst first."""
SORTS: Final = {
    "attention": "needs attention first",
    "name": "name",
    "requests": "most requests",
    "queue": "longest queue",
    "cache": "fullest cache",
    "failures": "most failures",
}

FLEET: Final = msgspec.json.Decoder(Fleet)
SIGNALS: Final = msgspec.json.Decoder(Page)


class Endpoint(NamedTuple):
    """One endpoint in all workers."""

    pool: str
    name: str
    address: str
    engine: str
    state: str
    """The worst that any worker knows."""
    why: str
    out_in: Sequence[int]
    """Workers that send it nothing."""
    seen_by: int
    """How many workers know it."""
    requests: int
    elsewhere: int
    queue_s: float
    """The longest."""
    running: int | None
    waiting: int | None
    kv_usage: float | None
    prefix_blocks: int
    started: int
    failures: int
    reading: str
    problem: str


class Wanted(NamedTuple):
    """What a viewer chose."""

    pool: str = ""
    state: str = ""
    search: str = ""
    sort: str = "attention"
    number: int = 1
    """Of the page, from 1."""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Wanted:
        """From the query of a URL. What makes no sense there is what is usual."""
        sort, number = query.get("sort", ""), query.get("page", "1")
        return cls(
            pool=query.get("pool", "")[:MAX_CHARACTERS],
            state=query.get("state", "")[:MAX_CHARACTERS],
            search=query.get("q", "")[:MAX_CHARACTERS].strip(),
            sort=sort if sort in SORTS else "attention",
            number=max(int(number[:6]), 1) if number.isascii() and number.isdigit() else 1,
        )

    def link(self, **changed: object) -> str:
        """The address of the same view with another choice."""
        chosen: dict[str, object] = {
            "pool": self.pool,
            "state": self.state,
            "q": self.search,
            "sort": self.sort,
        }
        chosen |= {"page": self.number} | changed
        return "?" + urlencode({name: value for name, value in chosen.items() if value})


def endpoints(told_by: Pages[Fleet]) -> tuple[list[Endpoint], int]:
    """All endpoints from what workers tell, and how many there are."""
    found: dict[tuple[str, str, str], list[tuple[int, EndpointRow]]] = {}
    total = 0
    for worker, told in told_by.of_workers.items():
        total = max(total, told.total)
        for row in told.endpoints:
            found.setdefault((row.pool, row.name, row.address), []).append((worker, row))
    return [_merged(rows) for rows in found.values()], max(total, len(found))


def _merged(rows: Sequence[tuple[int, EndpointRow]]) -> Endpoint:
    worst = min((row for _, row in rows), key=lambda row: _severity(row.state))
    return Endpoint(
        pool=worst.pool,
        name=worst.name,
        address=worst.address,
        engine=worst.engine,
        state=worst.state,
        why=worst.why,
        out_in=[worker for worker, row in rows if row.state in OUT],
        seen_by=len(rows),
        requests=sum(row.requests for _, row in rows),
        elsewhere=max(row.elsewhere for _, row in rows),
        queue_s=max(row.queue_s for _, row in rows),
        running=_last(row.running for _, row in rows),
        waiting=_last(row.waiting for _, row in rows),
        kv_usage=_last(row.kv_usage for _, row in rows),
        prefix_blocks=max(row.prefix_blocks for _, row in rows),
        started=sum(row.started for _, row in rows),
        failures=sum(row.failures for _, row in rows),
        reading=worst.reading,
        problem=worst.problem,
    )


def _severity(state: str) -> int:
    return SEVERITY.index(state) if state in SEVERITY else 0


def _last(values: Iterable[Any]) -> Any:
    """The figure of an engine, which is the same for all workers but for the time at which they asked."""
    return next((value for value in values if value is not None), None)


_KEYS: Final = {
    "attention": lambda each: (_severity(each.state), -each.failures, -each.queue_s, each.pool, each.name),
    "name": lambda each: (each.pool, each.name),
    "requests": lambda each: (-each.requests, each.pool, each.name),
    "queue": lambda each: (-each.queue_s, each.pool, each.name),
    "cache": lambda each: (-(each.kv_usage or 0.0), each.pool, each.name),
    "failures": lambda each: (-each.failures, each.pool, each.name),
}


class Pool(NamedTuple):
    """A pool in all workers."""

    shown_name: str
    """As endpoints name it."""
    signals: PoolSignals

    @property
    def cached(self) -> float | None:
        """The share of prompt tokens that a cache was expected to have."""
        told = self.signals
        return told.cached_tokens / told.prompt_tokens if told.prompt_tokens else None

    @property
    def first_token_s(self) -> float | None:
        """Mean time from sending to the first token, lately."""
        told = self.signals
        return told.ttft_sum_s / told.timed_requests if told.timed_requests else None

    @property
    def token_s(self) -> float | None:
        """Mean time between tokens, lately."""
        told = self.signals
        return told.tokens_sum_s / told.timed_tokens if told.timed_tokens else None

    @property
    def late(self) -> float | None:
        """The share of streams that missed their objective for the first token, lately."""
        told = self.signals
        return told.slo_misses / told.slo_requests if told.slo_requests else None


def pools(told_by: Pages[Page]) -> list[Pool]:
    """Each pool, over all workers."""
    merged = merged_by_pool(page.pools for page in told_by.of_workers.values())
    return [
        Pool(routing.name_of(api.ObjectRef(each.kind, each.namespace, each.name)), each) for each in merged
    ]


def busiest(found: Sequence[Pool], wanted: Wanted) -> list[Pool]:
    """The pools to show: those whose requests wait, then those with the most; or the one that was chosen."""
    chosen = [each for each in found if not wanted.pool or each.shown_name == wanted.pool]
    chosen.sort(
        key=lambda each: (
            -each.signals.requests_waiting,
            -each.signals.requests_running,
            -each.signals.arrivals,
            each.shown_name,
        )
    )
    return chosen[:POOL_ROWS]


def totals(found: Sequence[Pool]) -> dict[str, Any]:
    """Sums over pools, for the figures on top and their charts."""
    return {
        "running": sum(each.signals.requests_running for each in found),
        "waiting": sum(each.signals.requests_waiting for each in found),
        "arrivals": round(sum(each.signals.arrivals for each in found), 1),
    }


def unserved(urls: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Engines named by their URLs that are not among the endpoints, and why. Pages show MAX_UNSERVED."""
    found = [
        {"name": each["name"], "address": each["url"], "problem": each["problem"]}
        for each in urls
        if each["problem"]
    ]
    found += [
        {"name": server["name"], "address": server["address"], "problem": server["problem"]}
        for each in urls
        for server in each["servers"]
        if server["problem"]
    ]
    return found


def view(found: Sequence[Endpoint], wanted: Wanted) -> dict[str, Any]:
    """The part of the endpoints that a viewer chose, for the template."""
    words = wanted.search.casefold().split()
    chosen = [
        each
        for each in found
        if (not wanted.pool or each.pool == wanted.pool)
        and (not wanted.state or _is(each, wanted.state))
        and all(word in f"{each.name} {each.address} {each.engine}".casefold() for word in words)
    ]
    chosen.sort(key=_KEYS[wanted.sort])
    pages = max(math.ceil(len(chosen) / PAGE_ROWS), 1)
    number = min(wanted.number, pages)
    first = (number - 1) * PAGE_ROWS
    return {
        "rows": chosen[first : first + PAGE_ROWS],
        "first": first + 1 if chosen else 0,
        "matching": len(chosen),
        "number": number,
        "pages_there_are": pages,
        "states": {state: sum(each.state == state for each in found) for state in SEVERITY},
        "out": sum(each.state in OUT for each in found),
    }


def _is(each: Endpoint, state: str) -> bool:
    return each.state != "healthy" if state == "unhealthy" else each.state == state
