"""Print an explanation: ">" marks what would serve the request; every other line says why it would not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from headgate.cli.objects.printing import escaped
from headgate.dataplane.explaining.explanation import (
    Answer,
    EndpointShown,
    Explanation,
    FallbackShown,
    LimitShown,
    RouteShown,
    TargetShown,
)

MARK, NO_MARK = "  > ", "    "


def is_refused(found: Explanation) -> bool:
    """Whether the gateway would reject the request, whichever target is selected."""
    refusal = _refusal(found)
    return refusal is not None and _taken_over(found, refusal) is None


def _taken_over(found: Explanation, refusal: Answer) -> FallbackShown | None:
    """The first fallback that would get the request instead of this refusal."""
    usable = [each for each in found.fallbacks if not each.why_not and refusal.reason in each.reasons]
    return usable[0] if usable else None


def _refusal(found: Explanation) -> Answer | None:
    if found.answer is not None:
        return found.answer
    if found.decided is not None:
        return found.decided.answer
    possible = [target for target in found.targets if target.weight]
    return possible[0].answer if all(target.answer for target in possible) else None


def as_json(found: Explanation) -> str:
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n"


def as_text(found: Explanation) -> str:
    return "\n".join(escaped(line) for line in _lines(found)) + "\n"


def _lines(found: Explanation) -> Iterator[str]:
    stream = ", streamed" if found.stream else ""
    # A request rejected before its body was read has no known model.
    model = f", model {json.dumps(found.model, ensure_ascii=False)}" if found.model else ""
    yield f"POST {found.path}{model}{stream}"
    for route in found.routes:
        yield ""
        yield from _route(route)
    for name in found.shadowed:
        yield ""
        yield f"    ModelRoute {name}: has the name as an adapter; ignored, as another route has it as model"
    if not found.routes and found.model:
        yield ""
        yield "No ModelRoute, InferenceModel or InferencePool matches this name."
        if found.similar:
            yield f"Similar names: {', '.join(found.similar)}."
    if len(found.targets) > 1:
        yield ""
        yield from _targets(found)
    for target in _told(found):
        yield ""
        yield from _target(target)
    if found.fallbacks:
        yield ""
        yield f"If that fails, for {', '.join(found.fallbacks[0].reasons)}:"
        for each in found.fallbacks:
            yield f"    {each.name}: {each.why_not or f'goes to {each.pool}'}"
    if found.problems:
        yield ""
        yield "Problems with these objects:"
        yield from (f"    {problem}" for problem in found.problems)
    yield ""
    yield from _outcome(found)


def _route(route: RouteShown) -> Iterator[str]:
    mark = MARK if route.serves else NO_MARK
    created = f", of {route.created}" if route.created else ""
    yield f"{mark}{route.object}{created}: {route.why}"
    rows = []
    for rule in route.rules:
        asks = f" ({'; '.join(rule.conditions)})" if rule.serves and rule.conditions else ""
        rows.append(_Row(rule.serves, (f"rule {rule.name}", f"{rule.why}{asks}")))
    yield from _table(rows, indent=4)
    yield from (f"      limit: {_limit(limit)}" for limit in route.limits)


def _limit(limit: LimitShown) -> str:
    allowed = f"{limit.tokens} {limit.direction} tokens per {limit.unit}"
    if limit.available is None:
        return allowed
    left = f"{limit.available} left" if limit.available >= 0 else f"{-limit.available} in debt"
    return f"{allowed}, {left}, {limit.reserved} reserved for requests under way"


def _targets(found: Explanation) -> Iterator[str]:
    yield "Targets, by weight:"
    rows = []
    for target in found.targets:
        if not target.weight:
            turn = "never"
        elif target.is_next is None:
            turn = "each gateway keeps its own order"
        else:
            turn = "its turn" if target.is_next else "not its turn"
        is_marked = target.weight > 0 if target.is_next is None else target.is_next
        weight = f"weight {target.weight}, {target.share:.0%}"
        rows.append(_Row(is_marked, (_title(target), weight, turn)))
    yield from _table(rows)


def _told(found: Explanation) -> list[TargetShown]:
    """The selected target, or all targets that may be selected."""
    if found.decided is not None:
        return [found.decided]
    return [target for target in found.targets if target.weight]


def _target(target: TargetShown) -> Iterator[str]:
    if target.upstream_model is None:
        yield f"{target.pool}: does not exist"
        return
    tokens = target.prompt_tokens_estimate
    yield f"{target.pool}: about {tokens} prompt tokens"
    yield from (f"    {change}" for change in target.changes or ("the body is forwarded unchanged",))
    if target.priority:
        yield f"    priority {target.priority}"
    if target.endpoints is None:
        yield "    endpoints unknown: there are no Pods among the manifests"
    elif not target.endpoints:
        yield "    no ready endpoint"
    else:
        yield from _table([_endpoint(each) for each in target.endpoints])
    yield from (f"    {pod}" for pod in target.absent)
    if target.waits:
        yield f"    it would be queued: {target.waits}"


def _title(target: TargetShown) -> str:
    """The pool; with the model name where several targets may use the same pool."""
    return f"{target.pool} as {target.upstream_model}" if target.names_model else target.pool


def _endpoint(each: EndpointShown) -> _Row:
    load = f"{each.requests} requests, {each.work_tokens} tokens"
    return _Row(each.picked, (each.name, each.address, each.state, load, each.why))


class _Row(NamedTuple):
    is_marked: bool
    cells: tuple[str, ...]


def _table(rows: list[_Row], indent: int = 0) -> Iterator[str]:
    """Columns side by side."""
    widths = [max(map(len, column)) for column in zip(*(row.cells for row in rows), strict=True)]
    for row in rows:
        padded = "  ".join(cell.ljust(width) for cell, width in zip(row.cells, widths, strict=True))
        yield " " * indent + (MARK if row.is_marked else NO_MARK) + padded.rstrip()


def _outcome(found: Explanation) -> Iterator[str]:
    refusal = _refusal(found)
    if refusal is not None and (other := _taken_over(found, refusal)) is not None:
        yield f"It would be sent to {other.pool} instead, by its fallback: {refusal.reason}."
    elif refusal is not None:
        held = found.decided
        is_first_held = held is not None and held.waits and held.answer is refusal
        if is_first_held:
            yield "If its wait times out, it would be rejected:"
        elif any(not each.why_not for each in found.fallbacks):
            yield "Without fallbacks, or for another reason than theirs, it would be rejected:"
        else:
            yield "It would be rejected:"
        yield f"    HTTP {refusal.status} {_phrase(refusal.status)}"
        yield from (f"    {name}: {value}" for name, value in refusal.headers.items())
        yield f"    {refusal.body}"
    elif (target := found.decided) is None:
        yield f"It would be {' or '.join(_possibility(each) for each in found.targets if each.weight)}."
    elif target.endpoint is None:
        yield f"It would be sent to an endpoint of {target.pool}."
    else:
        live = "" if found.is_live else ", or another of the pool: only gateways know load and health"
        yield f"It would be sent to {target.endpoint.name} ({target.endpoint.address}){live}."


def _possibility(target: TargetShown) -> str:
    """The outcome if this target is selected."""
    if target.answer is not None:
        code = f"{target.answer.status} {_phrase(target.answer.status)}"
        return f"rejected with {code} if {_title(target)} is next ({target.share:.0%})"
    return f"sent to an endpoint of {_title(target)} ({target.share:.0%})"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
