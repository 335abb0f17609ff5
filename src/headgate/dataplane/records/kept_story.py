"""The story of one request that failed or was slow, as the dashboard tells it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import msgspec

from headgate.dataplane.records.log_field_cache import origin
from headgate.requests.account import SERVED

if TYPE_CHECKING:
    from headgate.dataplane.records.served_request import ServedRequest

MAX_TEXT: Final = 256
MAX_ERROR: Final = 512
MAX_ATTEMPTS: Final = 16


class AttemptShown(msgspec.Struct, frozen=True):
    """One try at one endpoint. Seconds are from the arrival of the request."""

    endpoint: str
    address: str
    outcome: str
    began_s: float
    ended_s: float
    is_prefill: bool = False


class QueueShown(msgspec.Struct, frozen=True):
    """Its time in the queue."""

    began_s: float
    took_s: float
    for_endpoint_s: float
    """The part of it in which the pool had no endpoint."""
    flow: str
    priority: int
    dropped: str
    """Why it was dropped or evicted; empty if it was neither."""


class PickShown(msgspec.Struct, frozen=True):
    """With which expectations the last endpoint was picked."""

    prompt_tokens: int
    cached_tokens: int
    first_token_s: float | None


class KeptRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is over. Seconds are from its arrival; None where that never happened."""

    number: int
    """Unique in its process."""
    at: float
    """When it ended, in seconds since 1970."""
    id: str
    client: str
    tenant: str | None
    method: str
    path: str
    model: str
    upstream_model: str
    stream: bool
    route: str | None
    rule: str | None
    pool: str | None
    status: int
    outcome: str
    origin: str | None
    """Who caused the failure: `client`, `gateway` or `upstream`."""
    error: str
    queue: QueueShown | None
    pick: PickShown | None
    prefill: str
    """With separate prefill and decode: `remote`, or why not."""
    attempts: list[AttemptShown]
    sent_s: float | None
    head_s: float | None
    first_byte_s: float | None
    total_s: float
    prompt_tokens: int | None
    output_tokens: int | None
    bytes_in: int
    bytes_out: int
    trace: str | None


class KeptPage(msgspec.Struct, frozen=True):
    """`/debug/kept`."""

    slow: list[KeptRequest]
    """The slowest of each of the last minutes."""
    failed: list[KeptRequest]
    """The last ones that failed through no fault of their client."""
    rejected: list[KeptRequest]
    """The last ones that failed because of their client."""
    left_out: int
    """Failures that were not kept because there were too many at a time."""


def story(ended: ServedRequest, tokens: tuple[int, int] | None, number: int, now: float) -> KeptRequest:
    """Everything that is known of a request."""
    request, life = ended.request, ended.life
    account, decision, match, wait = life.account, life.decision, life.decision.match, life.wait
    arrived_at, choice, trace = request.arrived_at, life.choice, request.trace

    def since(at: float) -> float | None:
        return round(at - arrived_at, 4) if at else None

    return KeptRequest(
        number=number,
        at=round(time.time(), 3),
        id=ended.request_id.decode("latin-1")[:MAX_TEXT],
        client=request.client_address[:MAX_TEXT],
        tenant=request.tenant.name[:MAX_TEXT] if request.tenant is not None else None,
        method=request.method.decode("latin-1")[:MAX_TEXT],
        path=request.path[:MAX_TEXT],
        model=decision.model[:MAX_TEXT],
        upstream_model=decision.upstream_model[:MAX_TEXT] if life.pool is not None else "",
        stream=decision.stream,
        route=match.route.name if match is not None else None,
        rule=match.rule.name[:MAX_TEXT] if match is not None else None,
        pool=life.pool.name if life.pool is not None else None,
        status=account.status,
        outcome=account.outcome,
        origin=origin(account.status, account.outcome),
        error=_error(ended),
        queue=QueueShown(
            began_s=round(wait.begun_at - arrived_at, 4),
            took_s=round(wait.seconds(now), 4),
            for_endpoint_s=round(wait.start_seconds(now), 4),
            flow=wait.place.flow[:MAX_TEXT],
            priority=wait.place.priority,
            dropped=wait.dropped_reason,
        )
        if wait is not None
        else None,
        pick=PickShown(decision.scheduled.prompt_tokens, choice.cached_tokens, choice.first_token_s)
        if choice is not None
        else None,
        prefill=life.pairing.decision if life.pairing is not None else "",
        attempts=_attempts(ended, now),
        sent_s=since(account.sent_at),
        head_s=since(account.head_at),
        first_byte_s=since(account.first_byte_at),
        total_s=round(now - arrived_at, 4),
        prompt_tokens=tokens[0] if tokens is not None else None,
        output_tokens=tokens[1] if tokens is not None else None,
        bytes_in=account.bytes_in,
        bytes_out=account.bytes_out + account.refusal_bytes,
        trace=trace.trace_id.decode() if trace is not None and trace.is_kept else None,
    )


def _error(ended: ServedRequest) -> str:
    account = ended.life.account
    if account.error_message or account.outcome != SERVED:
        return account.error_message[:MAX_ERROR]
    return f"the endpoint responded with status {account.upstream_status}" if account.status >= 400 else ""


def _attempts(ended: ServedRequest, now: float) -> list[AttemptShown]:
    """The last ones, in their order."""
    life, arrived_at = ended.life, ended.request.arrived_at
    found = [
        AttemptShown(
            each.endpoint,
            f"{each.host}:{each.port}",
            each.reason,
            round(each.began_at - arrived_at, 4),
            round(each.ended_at - arrived_at, 4),
            each.is_prefill,
        )
        for each in (life.account.failed_attempts or ())[-MAX_ATTEMPTS:]
    ]
    attempt = life.attempt
    if attempt is not None and life.load is not None:
        endpoint, began_s = life.load.endpoint, round(attempt.began_at - arrived_at, 4)
        ended_s = round(now - arrived_at, 4)
        found.append(AttemptShown(endpoint.name, endpoint.address, life.account.outcome, began_s, ended_s))
    return found
