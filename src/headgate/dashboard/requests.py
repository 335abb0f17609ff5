"""The pages of requests: those in flight, those that failed or were slow, and the story of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from headgate.dashboard.sources import Pages
from headgate.dataplane.records.kept_story import KeptPage, KeptRequest

IN_FLIGHT: Final = 20
ROWS: Final = 25
KEPT: Final = msgspec.json.Decoder(KeptPage)
RUNNING: Final = msgspec.json.Decoder(dict[str, Any])
KINDS: Final = {
    "failed": "Failed",
    "slow": "Slowest of the last ten minutes",
    "rejected": "Rejected, or given up by their client",
}


class Kept(NamedTuple):
    """A kept request, and the worker that keeps it."""

    worker: int
    request: KeptRequest


class Step(NamedTuple):
    """Something that happened to a request."""

    at_s: float
    took_s: float | None
    what: str
    detail: str
    is_bad: bool = False


def kept(told: Pages[KeptPage], kind: str) -> list[Kept]:
    """Those of all workers, the newest first."""
    found = [Kept(worker, each) for worker, page in told.of_workers.items() for each in getattr(page, kind)]
    found.sort(key=lambda each: each.request.at, reverse=True)
    return found[:ROWS]


def one(told: Pages[KeptPage], query: Mapping[str, str]) -> KeptRequest | None:
    """The request that a link leads to; None if it is not kept any more."""
    worker, number = query.get("worker", ""), query.get("number", "")
    for each in (found for kind in KINDS for found in _all(told, kind)):
        if (str(each.worker), str(each.request.number)) == (worker, number):
            return each.request
    return None


def _all(told: Pages[KeptPage], kind: str) -> Iterable[Kept]:
    for worker, page in told.of_workers.items():
        for each in getattr(page, kind):
            yield Kept(worker, each)


def running(told: Pages[dict[str, Any]]) -> list[dict[str, Any]]:
    """The oldest requests in flight, of all workers."""
    found = [each for page in told.of_workers.values() for each in page.get("requests", [])]
    found.sort(key=lambda each: each["age_s"], reverse=True)
    return found[:IN_FLIGHT]


def in_flight(told: Pages[dict[str, Any]]) -> int:
    return sum(int(page.get("total", 0)) for page in told.of_workers.values())


def slowness(request: KeptRequest) -> float:
    """Seconds that its client waited for the beginning of the response."""
    first_s = request.first_byte_s
    return first_s if request.stream and first_s is not None else request.total_s


def story(request: KeptRequest) -> list[Step]:
    """What happened to a request, in its order."""
    steps = [Step(0.0, None, "Arrived", _arrived(request))]
    if (queue := request.queue) is not None:
        detail = f"flow {queue.flow}, priority {queue.priority}"
        if queue.for_endpoint_s:
            detail += f"; of that {queue.for_endpoint_s:.3g} s until the pool had an endpoint"
        if queue.dropped:
            detail += f"; dropped: {queue.dropped}"
        steps.append(Step(queue.began_s, queue.took_s, "Queued", detail, bool(queue.dropped)))
    last = len(request.attempts)
    for number, attempt in enumerate(request.attempts, 1):
        is_last = number == last
        what = "Prefill" if attempt.is_prefill else f"Attempt {number} of {last}"
        detail = f"{attempt.endpoint} at {attempt.address}: {attempt.outcome}"
        if is_last and request.pick is not None:
            detail += f"; {_picked(request)}"
        took_s = attempt.ended_s - attempt.began_s
        steps.append(Step(attempt.began_s, took_s, what, detail, attempt.outcome != "served"))
    if request.head_s is not None:
        steps.append(Step(request.head_s, None, "Response head", ""))
    if request.first_byte_s is not None:
        steps.append(Step(request.first_byte_s, None, "First byte of the response", ""))
    steps.append(Step(request.total_s, None, "Ended", _ended(request), request.origin is not None))
    return sorted(steps, key=lambda step: step.at_s)


def _arrived(request: KeptRequest) -> str:
    if request.route is None:
        return "no route took it"
    return f"route {request.route}, rule {request.rule}, pool {request.pool or 'none'}"


def _picked(request: KeptRequest) -> str:
    pick = request.pick
    assert pick is not None
    told = f"expected {pick.cached_tokens} of {pick.prompt_tokens} prompt tokens in its cache"
    if pick.first_token_s is not None:
        told += f", and the first token after {pick.first_token_s:.3g} s"
    return told


def _ended(request: KeptRequest) -> str:
    told = f"status {request.status}, {request.outcome}"
    if request.origin is not None:
        told += f", because of the {_ORIGINS.get(request.origin, request.origin)}"
    return f"{told}: {request.error}" if request.error else told


_ORIGINS: Final = {"client": "client", "gateway": "gateway", "upstream": "endpoint"}
