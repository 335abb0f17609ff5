"""The response header `x-headgate-decision`: the decision about a request in one line.

Sent only if a trusted client asks for it with `x-headgate-explain: 1`, since it contains names of pools and
Pods, and addresses. Other requests pay nothing for it.
"""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headgate.dataplane.records.served_request import ServedRequest
    from headgate.scheduling import Choice

NAME = b"x-headgate-decision"
MAX_VALUE_CHARACTERS = 128
MAX_TRIED = 8
_SAFE = "/:.,-_[]()*+@!~"
"""Characters that are not encoded, besides letters and digits; all others are percent-encoded."""


def line(exchange: ServedRequest, limits: list[tuple[str, str]], refused: str = "") -> bytes:
    """The header line: `key=value` pairs separated by semicolons, ASCII, of bounded length.

    `limits`: the pairs about the route's limit. `refused`: the code of the refusal, if the request was
    refused.
    """
    life = exchange.life
    decision, load, account = life.decision, life.load, life.account
    pairs: list[tuple[str, str]] = []
    if decision.match is not None:
        pairs += (("route", decision.match.route.name), ("rule", decision.match.rule.name))
    pairs += limits
    if life.pool is not None:
        pairs += (("target", life.pool.name), ("model", decision.upstream_model))
    if priority := decision.scheduled.priority:
        pairs.append(("priority", str(priority)))
    if load is not None:
        pairs += (("endpoint", load.endpoint.name), ("address", load.endpoint.address))
    if life.choice is not None:
        pairs += _expected(life.choice, decision.scheduled.prompt_tokens)
    if life.pairing is not None:
        pairs += [(f"prefill-{key}", str(value)) for key, value in life.pairing.told().items() if value]
    if life.wait is not None:
        place = life.wait.place
        pairs.append(("queued", f"{life.wait.seconds(0.0) * 1e3:.0f}ms"))
        if life.wait.is_for_endpoint:
            pairs.append(("start-wait", f"{life.wait.start_seconds(0.0) * 1e3:.0f}ms"))
        pairs += [("flow", place.flow), ("priority", str(place.priority))]
    if life.fallen is not None:
        pairs += [("left", f"{hop.model}:{hop.reason}") for hop in life.fallen.hops]
    pairs.append(("attempts", str(account.attempts)))
    for each in (account.failed_attempts or ())[-MAX_TRIED:]:
        pairs.append(("tried", f"{each.endpoint}:{each.reason}"))
    if (trace := exchange.request.trace) is not None and trace.is_kept:
        pairs.append(("trace", trace.trace_id.decode()))
    if refused:
        pairs.append(("refused", refused))
        if life.wait is not None and life.wait.dropped_reason:
            pairs.append(("dropped", life.wait.dropped_reason))
    return b"%b: %b\r\n" % (NAME, value_of(pairs))


def value_of(pairs: Iterable[tuple[str, str]]) -> bytes:
    """The value of the header."""
    return "; ".join(f"{key}={_safe(value)}" for key, value in pairs).encode()


def _expected(choice: Choice, prompt_tokens: int) -> list[tuple[str, str]]:
    """The expectations with which the endpoint was picked."""
    pairs = [("cached", f"{choice.cached_tokens}/{prompt_tokens}")]
    if choice.first_token_s is not None:
        pairs.append(("first-token", f"{choice.first_token_s * 1e3:.0f}ms"))
    return pairs


def _safe(value: str) -> str:
    cut = value if len(value) <= MAX_VALUE_CHARACTERS else value[:MAX_VALUE_CHARACTERS] + "..."
    return urllib.parse.quote(cut, safe=_SAFE, errors="replace")
