"""Attributes of spans: those of OpenTelemetry's conventions for generative AI and HTTP, and our own.

https://github.com/open-telemetry/semantic-conventions-genai and
https://opentelemetry.io/docs/specs/semconv/http/http-spans/. Texts of clients are cut; prompts, responses,
queries and other headers are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate.dataplane.records.log_field_cache import origin
from headgate.requests import paths
from headgate.requests.account import SERVED

if TYPE_CHECKING:
    from headgate.dataplane.records.served_request import ServedRequest
    from headgate.requests.life import Attempt, Life
    from headgate.requests.wait import Wait
    from headgate.telemetry.tracing.span import Value

MAX_TEXT: Final = 256
_SERVER_ERROR: Final = 500
_CHAT, _TEXT = "chat", "text_completion"
_OPERATIONS: Final = {
    "/v1/chat/completions": _CHAT,
    "/v1/chat/completions/batch": _CHAT,
    "/v1/messages": _CHAT,
    "/v1/responses": _CHAT,
    "/v1/completions": _TEXT,
    "/generate": _TEXT,
    "/inference/v1/generate": _TEXT,
    "/v1/embeddings": "embeddings",
    "/v2/embed": "embeddings",
}
"""The operations that the conventions name, by path."""


def operation(path: str) -> str:
    """`gen_ai.operation.name` of a path, such as chat; "" if it is none of an inference API."""
    known = _OPERATIONS.get(path)
    if known is not None:
        return known
    return path.rpartition("/")[2] if path in paths.DEFAULT else ""


def is_failed(ended: ServedRequest) -> bool:
    """Whether a request failed, and its client is not to blame."""
    account = ended.life.account
    if account.outcome == SERVED:
        return account.status >= _SERVER_ERROR
    return origin(account.status, account.outcome) != "client"


def of_request(ended: ServedRequest, reason: str, now: float) -> dict[str, Value]:
    """Of the whole request."""
    request, life, account = ended.request, ended.life, ended.life.account
    decision, usage = life.decision, account.usage
    found: dict[str, Value] = {
        "http.request.method": _cut(request.method.decode("latin-1")),
        "url.path": _cut(request.path),
        "http.response.status_code": account.status,
        "http.request.body.size": account.bytes_in,
        "http.response.body.size": account.bytes_out + account.refusal_bytes,
        "headgate.request.id": _cut(ended.request_id.decode("latin-1")),
        "headgate.request.outcome": account.outcome,
        "headgate.request.attempts": account.attempts,
        "headgate.request.priority": decision.scheduled.priority,
        "headgate.trace.kept": reason,
        "gen_ai.request.stream": decision.stream,
    }
    if life.fallen is not None and life.fallen.hops:
        found["headgate.request.fallbacks"] = _cut(
            ",".join(f"{hop.model}:{hop.reason}" for hop in life.fallen.hops)
        )
    if named := operation(request.path):
        found["gen_ai.operation.name"] = named
    if address := request.client_address:
        found["client.address"] = _cut(address)
    if decision.model:
        found["gen_ai.request.model"] = _cut(decision.model)
    if decision.match is not None:
        found["headgate.route"] = decision.match.route.name
        found["headgate.rule"] = _cut(decision.match.rule.name)
    if life.pool is not None:
        found["gen_ai.provider.name"] = life.pool.pool.engine.lower()
        found["headgate.pool"] = life.pool.name
        if decision.upstream_model:
            found["gen_ai.response.model"] = _cut(decision.upstream_model)
    if life.load is not None:
        found["headgate.endpoint"] = life.load.endpoint.name
    if request.tenant is not None:
        found["headgate.tenant"] = _cut(request.tenant.name)
    elif life.wait is not None:
        found["headgate.tenant"] = _cut(life.wait.place.flow)
    if account.first_byte_at and decision.stream:
        found["gen_ai.response.time_to_first_chunk"] = account.first_byte_at - request.arrived_at
    if usage is not None:
        found["gen_ai.usage.input_tokens"] = usage.prompt
        found["gen_ai.usage.output_tokens"] = usage.completion
        if usage.cached is not None:
            found["gen_ai.usage.cache_read.input_tokens"] = usage.cached
    if (held := life.reservation) is not None:
        if held.input is not None:
            found["headgate.limit.input_tokens"] = held.input_tokens
        if held.output is not None:
            found["headgate.limit.output_tokens"] = held.output_tokens
    if account.outcome != SERVED:
        found["error.type"] = account.outcome
    elif account.status >= 400:
        found["error.type"] = str(account.status)
    return found


def of_queue(wait: Wait) -> dict[str, Value]:
    """Of the time in the queue."""
    found: dict[str, Value] = {
        "headgate.tenant": _cut(wait.place.flow),
        "headgate.request.priority": wait.place.priority,
        "headgate.queue.for_endpoint": wait.is_for_endpoint,
    }
    if wait.dropped_reason:
        found["error.type"] = wait.dropped_reason
    return found


def of_pick(life: Life, attempt: Attempt) -> dict[str, Value]:
    """Of the choice of an endpoint."""
    choice, scheduled = attempt.choice, life.decision.scheduled
    found: dict[str, Value] = {
        "headgate.endpoint": attempt.load.endpoint.name,
        "headgate.pick.prompt_tokens": scheduled.prompt_tokens,
        "headgate.pick.cached_tokens": choice.cached_tokens,
    }
    if choice.first_token_s is not None:
        found["headgate.pick.first_token"] = choice.first_token_s
    if life.pairing is not None:
        found["headgate.pick.prefill"] = life.pairing.decision
    return found


def of_attempt(life: Life, attempt: Attempt) -> dict[str, Value]:
    """Of the last attempt."""
    account, endpoint = life.account, attempt.load.endpoint
    found = of_endpoint(endpoint.name, endpoint.host, endpoint.port)
    found["headgate.attempt.number"] = account.attempts
    if account.upstream_status:
        found["http.response.status_code"] = account.upstream_status
    if account.outcome != SERVED:
        found["error.type"] = account.outcome
    elif account.upstream_status >= 400:
        found["error.type"] = str(account.upstream_status)
    return found


def of_endpoint(name: str, host: str, port: int) -> dict[str, Value]:
    """Of anything that an endpoint does."""
    return {"headgate.endpoint": name, "server.address": host, "server.port": port}


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT]
