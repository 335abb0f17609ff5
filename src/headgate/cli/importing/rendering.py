"""Print a report as text, JSON or YAML."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from headgate.cli.importing.report import (
    NameReport,
    ObjectReport,
    PoolReport,
    Report,
    RouteReport,
    TargetReport,
)
from headgate.cli.objects.printing import as_json, as_yaml, escaped

_MAX_ENDPOINTS = 20
"""Shown for each pool."""
_OUTCOMES = {
    "as-is": "taken as it is",
    "own-route": "served by Headgate's Gateway",
    "converted": "converted",
    "not-served": "not served",
    "refused": "refused",
}


def as_data(report: Report) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(report)
    return {"served": report.is_served, **data}


def render(report: Report, output: str) -> str:
    if output == "json":
        return as_json(as_data(report))
    if output == "yaml":
        return as_yaml(as_data(report))
    return "".join(f"{escaped(line)}\n" for line in _text(report))


def _text(report: Report) -> Iterator[str]:
    yield f"Objects of {report.source}:"
    yield ""
    for each in report.objects:
        yield from _object(each)
    if not report.objects:
        yield "  none that Headgate has anything to do with"
    yield from _section("Not read:", (f"  ! {each.what}: {each.why}" for each in report.unread))
    yield from _section("Kinds that the cluster does not have:", _wrapped(report.absent_kinds))
    yield from _served(report)
    troubles = (f"  ! {each.object}: {each.reason}: {each.message}" for each in report.troubles)
    yield from _section("Conflicts, and references that do not resolve:", troubles)
    yield ""
    yield _summary(report)


def _wrapped(words: Iterable[str]) -> Iterator[str]:
    text = ", ".join(words)
    yield from (f"  {line}" for line in textwrap.wrap(text, 100, break_long_words=False))


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield from ("", title, *found)


def _object(each: ObjectReport) -> Iterator[str]:
    mark = " " if each.is_served else "!"
    yield f"{mark} {_OUTCOMES[each.outcome]}: {each.object}, {each.api_version} ({each.source})"
    if each.outcome == "converted":
        yield from (f"      becomes {became}" for became in each.becomes)
    for error in each.errors:
        yield f"    ! {f'{error.path}: ' if error.path else ''}{error.message}{_fix(error.fix)}"
    for change in each.changes:
        told = f": {change.note}" if change.note else ""
        if change.path and change.to and change.path != change.to:
            yield f"      {change.path} -> {change.to}{told}"
        else:
            yield f"      {change.path or change.to}{told}"
    for difference in each.differences:
        mark = "!" if difference.changes_service else "-"
        what = "" if difference.path in ("kind", "apiVersion") else f"{difference.path} {difference.value}: "
        yield f"    {mark} {what}{difference.instead}{_fix(difference.fix)}"
    yield from (f"      note: {note}" for note in each.notes)


def _fix(text: str) -> str:
    return f"; {text}" if text else ""


def _served(report: Report) -> Iterator[str]:
    yield ""
    yield "Would be served:"
    if not report.names:
        yield "  no model name"
    for name in report.names:
        yield from _name(name)
    if report.pools:
        yield ""
        yield "Pools:"
    for pool in report.pools:
        yield from _pool(pool, knows_pods=report.knows_pods)


def _name(name: NameReport) -> Iterator[str]:
    title = {"model": f"model {name.name}", "adapter": f"adapter {name.name}"}.get(
        name.kind, "any other name"
    )
    yield f"  {title}"
    for route in name.routes:
        yield from _route(route)


def _route(route: RouteReport) -> Iterator[str]:
    priority = f", priority {route.priority}" if route.priority else ""
    reserved = ", reserved: its requests are rejected" if route.is_reserved else ""
    yield f"    {route.object}{priority}{reserved}"
    for rule in route.rules:
        conditions = f" if {' and '.join(rule.conditions)}" if rule.conditions else ""
        yield f"      rule {rule.name}{conditions}"
        yield from (f"        {_target(target)}" for target in rule.targets)


def _target(target: TargetReport) -> str:
    model = f", as {target.model}" if target.model else ""
    return f"{target.share:>4.0%} to {target.pool}{model}"


def _pool(pool: PoolReport, *, knows_pods: bool) -> Iterator[str]:
    port = f", port {pool.port}" if pool.port else ""
    labels = ",".join(f"{key}={value}" for key, value in sorted(pool.selector.items()))
    yield f"  {pool.pool}: {pool.engine}, {pool.protocol}{port}, Pods with {labels or 'no labels: none'}"
    if not knows_pods:
        workloads = ", ".join(pool.workloads)
        yield f"      {f'Pods of {workloads}' if workloads else 'endpoints unknown: no Pods were read'}"
        return
    shown = pool.endpoints[:_MAX_ENDPOINTS]
    yield from (f"      {each.address}  {each.name}{f'  {each.role}' if each.role else ''}" for each in shown)
    if len(pool.endpoints) > len(shown):
        yield f"      and {len(pool.endpoints) - len(shown)} more"
    if not pool.endpoints:
        yield "      no endpoint"
    yield from (f"    - {why}" for why in pool.absent)


def _summary(report: Report) -> str:
    counts: Counter[str] = Counter(each.outcome for each in report.objects)
    told = [f"{counts[outcome]} {words}" for outcome, words in _OUTCOMES.items() if counts[outcome]]
    changed = sum(each.outcome in ("as-is", "converted") and not each.is_served for each in report.objects)
    if changed:
        told.append(f"{changed} taken with differences that change what is served")
    total = len(report.objects)
    ignored = [f"{number} {kind}" for kind, number in report.ignored.items()]
    rest = f" Left alone: {', '.join(ignored)}." if ignored else ""
    return f"{total} object{'' if total == 1 else 's'}: {', '.join(told) or 'nothing to do'}.{rest}"
