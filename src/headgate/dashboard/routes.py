"""The pages of routes and of queues: traffic, limits, and who waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from headgate.dashboard.sources import Pages
from headgate.dashboard.traffic import Row, Traffic
from headgate.dataplane.routes_shown import RouteShown, RoutesPage, TenantShown

ROUTES: Final = msgspec.json.Decoder(RoutesPage)
LIMITS: Final = msgspec.json.Decoder(dict[str, dict[str, Any]])
FLOW: Final = msgspec.json.Decoder(dict[str, list[dict[str, Any]]])
MAX_FLOWS: Final = 100
PAGE_ROWS: Final = 100


class Limit(NamedTuple):
    """One direction of a token limit, over all workers."""

    direction: str
    limit: int
    unit: str
    available: float
    """The least that any worker knows to be left; negative is debt."""
    used: int
    refused: int
    is_degraded: bool
    """Whether its Redis is away for some worker."""

    @property
    def left(self) -> float:
        """As a share, 0 to 1."""
        return min(max(self.available / self.limit, 0.0), 1.0) if self.limit else 0.0


class RouteRow(NamedTuple):
    route: RouteShown
    traffic: Row
    limits: list[Limit]


class TenantRow(NamedTuple):
    tenant: TenantShown
    traffic: Row
    tokens: tuple[int, int]
    limits: list[Limit]
    queued: int


class Flow(NamedTuple):
    """The queued requests of one fairness id in one pool and band, over all workers."""

    pool: str
    priority: int
    name: str
    requests: int
    weight: float
    oldest_s: float
    standing: str
    workers: int
    why: str
    """Why its first request waits, as far as a worker tells."""


class Queue(NamedTuple):
    """The queue of one pool, over all workers."""

    pool: str
    is_on: bool
    requests: int
    bytes: int
    in_flight: int
    saturation: float
    """The largest."""
    why: str
    """Why the first of its requests waits, or if there is none, why a new one would."""


def newest(told: Pages[RoutesPage]) -> RoutesPage:
    """Of the worker that knows most: all follow the same objects, but some may still load them."""
    empty = RoutesPage(
        routes=[],
        routes_total=0,
        tenants=[],
        tenants_total=0,
        problems=[],
        problems_total=0,
        denied=[],
    )
    pages = told.of_workers.values()
    return max(pages, key=lambda page: page.routes_total + page.tenants_total, default=empty)


def limits(told: Pages[dict[str, dict[str, Any]]]) -> dict[str, list[Limit]]:
    """The limits of each route and tenant, by the names of both."""
    found: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    units: dict[str, tuple[str, bool]] = {}
    for page in told.of_workers.values():
        for name, limit in page.items():
            before = units.get(name, ("", False))[1]
            units[name] = limit["unit"], before or bool(limit.get("degraded"))
            for direction in ("input", "output"):
                if direction in limit:
                    found.setdefault(name, {}).setdefault(direction, []).append(limit[direction])
    return {
        name: [
            Limit(
                direction=direction,
                limit=accounts[0]["limit"],
                unit=units[name][0],
                available=min(each["available"] for each in accounts),
                used=sum(each["used"] for each in accounts),
                refused=sum(each["requests_refused"] for each in accounts),
                is_degraded=units[name][1],
            )
            for direction, accounts in directions.items()
        ]
        for name, directions in found.items()
    }


def rows(page: RoutesPage, known: Mapping[str, list[Limit]], traffic: Traffic) -> list[RouteRow]:
    """Each route, the busiest first."""
    found = [RouteRow(each, traffic.route(each.name), known.get(each.name, [])) for each in page.routes]
    found.sort(key=lambda row: (-(row.traffic.per_s or 0.0), -row.traffic.total, row.route.name))
    return found[:PAGE_ROWS]


def tenants(
    page: RoutesPage, known: Mapping[str, list[Limit]], traffic: Traffic, flows: Iterable[Flow]
) -> list[TenantRow]:
    """Each tenant, those with queued requests first, then the busiest."""
    queued: dict[str, int] = {}
    for flow in flows:
        queued[flow.name] = queued.get(flow.name, 0) + flow.requests
    found = [
        TenantRow(
            each,
            traffic.tenant(each.name),
            traffic.tenant_tokens(each.name),
            [limit for name in each.limits for limit in known.get(name, [])],
            queued.get(each.name, 0),
        )
        for each in page.tenants
    ]
    found.sort(key=lambda row: (-row.queued, -(row.traffic.per_s or 0.0), row.tenant.name))
    return found[:PAGE_ROWS]


def _views(told: Pages[Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for page in told.of_workers.values():
        for pool, views in page.items():
            for view in views:
                yield pool, view


def queues(told: Pages[Any]) -> list[Queue]:
    """Each pool, the longest queue first."""
    found: dict[str, Queue] = {}
    for pool, view in _views(told):
        queue, known = view["queue"], found.get(pool)
        found[pool] = Queue(
            pool=pool,
            is_on=view["is_on"] or (known is not None and known.is_on),
            requests=queue["requests"] + (known.requests if known is not None else 0),
            bytes=queue["bytes"] + (known.bytes if known is not None else 0),
            in_flight=view["in_flight"] + (known.in_flight if known is not None else 0),
            saturation=max(queue["saturation"], known.saturation if known is not None else 0.0),
            why=(known.why if known is not None else "") or _first_why(queue["bands"]) or view["why"],
        )
    return sorted(found.values(), key=lambda each: (-each.requests, each.pool))[:PAGE_ROWS]


def _first_why(bands: Iterable[Mapping[str, Any]], flow: str | None = None) -> str:
    """Why the first request waits: of all bands, or of one flow."""
    for band in bands:
        for each in band.get("first", ()):
            if flow is None or each["flow"] == flow:
                return str(each["why"])
    return ""


def flows(told: Pages[Any]) -> list[Flow]:
    """Each flow of each pool and band, the longest first."""
    found: dict[tuple[str, int, str], Flow] = {}
    for pool, view in _views(told):
        for band in view["queue"]["bands"]:
            for each in band["flows"]:
                key = pool, band["priority"], each["name"]
                known = found.get(key)
                found[key] = Flow(
                    *key,
                    requests=each["requests"] + (known.requests if known is not None else 0),
                    weight=each["weight"],
                    oldest_s=max(each["oldest_s"], known.oldest_s if known is not None else 0.0),
                    standing=each["standing"],
                    workers=1 + (known.workers if known is not None else 0),
                    why=(known.why if known is not None else "") or _first_why([band], each["name"]),
                )
    waiting = [each for each in found.values() if each.requests]
    return sorted(waiting, key=lambda each: (-each.requests, each.pool, each.name))
