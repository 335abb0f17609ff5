"""What needs attention now, in a few lines on top of the first page: why requests are slow, or fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple
from urllib.parse import urlencode

from headgate.dashboard.fleet import OUT, Endpoint, Pool
from headgate.dashboard.routes import Flow, Limit, Queue
from headgate.dashboard.traffic import Traffic
from headgate.dataplane.routes_shown import RoutesPage

MAX_FINDINGS: Final = 12
MAX_OF_A_KIND: Final = 3
"""Pools, models or limits that are named; others of the same kind are only on their page."""
BUSIEST: Final = 1000
"""Models in a pool whose failures are looked at."""
FULL: Final = 0.9
"""Share of a KV cache."""
SCARCE: Final = 0.05
"""Share of a token limit that is left."""
MOST_FAILED: Final = 0.01
MOST_LATE: Final = 0.05
FLEET: Final = "/dashboard"


class Finding(NamedTuple):
    """One thing to look at."""

    what: str
    why: str
    link: str
    is_bad: bool = True
    """Whether requests fail or find no endpoint; otherwise they are slow, or may be."""


class Seen(NamedTuple):
    """What the other pages show."""

    endpoints: Sequence[Endpoint]
    unserved: Sequence[Mapping[str, str]]
    pools: Sequence[Pool]
    queues: Sequence[Queue]
    flows: Sequence[Flow]
    limits: Mapping[str, Sequence[Limit]]
    objects: RoutesPage
    traffic: Traffic


def findings(seen: Seen) -> list[Finding]:
    """What is wrong, the worst first; empty if nothing is."""
    of_pool: dict[str, list[Endpoint]] = {}
    for each in seen.endpoints:
        of_pool.setdefault(each.pool, []).append(each)
    kinds: tuple[Iterable[Finding], ...] = (
        _without_endpoints(seen.pools),
        _unserved(seen.unserved),
        _out(of_pool),
        _failing(seen.traffic),
        _queued(seen.queues, seen.flows),
        _full(of_pool),
        _late(seen.pools),
        _scarce(seen.limits),
        _unread(of_pool),
        _unused(seen.objects),
    )
    return list(islice(chain.from_iterable(islice(kind, MAX_OF_A_KIND) for kind in kinds), MAX_FINDINGS))


def _without_endpoints(pools: Sequence[Pool]) -> Iterator[Finding]:
    for each in pools:
        if not each.signals.endpoints:
            waiting = each.signals.waiting_for_endpoints
            why = f"{_count(waiting, 'request')} for it {_are(waiting)} held" if waiting else ""
            yield Finding(f"{each.shown_name} has no endpoint", why, FLEET + "#pools", bool(waiting))


def _unserved(engines: Sequence[Mapping[str, str]]) -> Iterator[Finding]:
    if engines:
        first, more = engines[0], len(engines) - 1
        why = f"{first['name']}: {first['problem']}" + (f"; and {more} more" if more else "")
        yield Finding(f"{_count(len(engines), 'engine')} {_are(len(engines))} not served", why, "#unserved")


def _out(of_pool: Mapping[str, Sequence[Endpoint]]) -> Iterator[Finding]:
    for pool, found in of_pool.items():
        out = [each for each in found if each.state in OUT]
        if out:
            link = f"{FLEET}?{urlencode({'pool': pool, 'state': 'unhealthy'})}#endpoints"
            why = f"{out[0].name} {out[0].why}" + (f"; and {len(out) - 1} more" if len(out) > 1 else "")
            yield Finding(f"{len(out)} of {len(found)} endpoints of {pool} get no requests", why, link)


def _failing(traffic: Traffic) -> Iterator[Finding]:
    for each in traffic.models(BUSIEST)[0]:
        share = each.requests.server_errors or 0.0
        if share >= MOST_FAILED:
            what = f"{share:.0%} of the requests for {each.model} fail"
            yield Finding(what, "status 5xx, in the last minute", FLEET + "/requests#failed")
        share = each.dropped or 0.0
        if share >= MOST_FAILED:
            what = f"{share:.0%} of the requests for {each.model} get 429"
            yield Finding(what, "their pool had no capacity in the last minute", FLEET + "/requests#failed")


def _queued(queues: Sequence[Queue], flows: Sequence[Flow]) -> Iterator[Finding]:
    for each in queues:
        mine = [flow for flow in flows if flow.pool == each.pool]
        if each.requests and mine:
            oldest_s, most = max(flow.oldest_s for flow in mine), max(mine, key=lambda flow: flow.requests)
            what = f"{_count(each.requests, 'request')} {_are(each.requests)} queued for {each.pool}"
            why = f"the oldest for {oldest_s:.2g} s; {most.requests:,} of {most.name}"
            yield Finding(what, why + (f"; {each.why}" if each.why else ""), FLEET + "/queues", False)


def _full(of_pool: Mapping[str, Sequence[Endpoint]]) -> Iterator[Finding]:
    for pool, found in of_pool.items():
        link = f"{FLEET}?{urlencode({'pool': pool, 'sort': 'queue'})}#endpoints"
        full = [each for each in found if each.waiting]
        if full:
            queued = sum(each.waiting or 0 for each in full)
            what = f"{len(full)} of {len(found)} engines of {pool} are full"
            why = f"{_count(queued, 'request')} {_are(queued)} queued in them"
            yield Finding(what, why, link, False)
        cached = sum((each.kv_usage or 0.0) > FULL for each in found)
        if cached:
            what = f"The KV cache of {cached} of {len(found)} engines of {pool} is more than {FULL:.0%} full"
            yield Finding(what, "they run fewer requests at a time", link, False)


def _late(pools: Sequence[Pool]) -> Iterator[Finding]:
    for each in pools:
        late = each.late or 0.0
        if late >= MOST_LATE:
            what = f"{late:.0%} of the streams of {each.shown_name} missed their objective"
            yield Finding(what, "for the first token, in the last 15 s", FLEET + "#pools", False)


def _scarce(limits: Mapping[str, Sequence[Limit]]) -> Iterator[Finding]:
    for name, accounts in limits.items():
        for each in accounts:
            if each.left < SCARCE:
                left = f"{max(each.available, 0):,.0f} of {each.limit:,}"
                what = f"The limit of {name} is used up"
                why = f"{left} {each.direction} tokens a {each.unit} are left; {each.refused:,} rejected"
                page = "/queues#tenants" if name.startswith("tenant/") else "/routes#routes"
                yield Finding(what, why, FLEET + page, False)


def _unread(of_pool: Mapping[str, Sequence[Endpoint]]) -> Iterator[Finding]:
    for pool, found in of_pool.items():
        unread = [each for each in found if each.problem and each.state not in OUT]
        if unread:
            what = f"The metrics of {len(unread)} of {len(found)} engines of {pool} cannot be read"
            why = f"{unread[0].name}: {unread[0].problem}"
            yield Finding(what, why, f"{FLEET}?{urlencode({'pool': pool})}#endpoints", False)


def _unused(objects: RoutesPage) -> Iterator[Finding]:
    count = objects.problems_total + len(objects.denied)
    if count:
        first = objects.problems[0] if objects.problems else None
        why = f"{first.object} {first.field}: {first.message}" if first is not None else objects.denied[0]
        what = f"{_count(count, 'part')} of objects {_are(count)} not in use"
        yield Finding(what, why, FLEET + "/routes#problems", False)


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
