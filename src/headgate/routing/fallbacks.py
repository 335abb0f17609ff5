"""Reads from the annotations of an object what takes over its requests."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headgate import api
from headgate.api import fallbacks, marks
from headgate.routing.problems import INVALID_ANNOTATION, Report, Reporter
from headgate.routing.snapshot import Fallback, Next

POOL_NOT_FOUND = "FallbackNotFound"
FIELD = f"metadata.annotations[{marks.FALLBACK}]"


def fallback(annotations: Mapping[str, str], kind: str, namespace: str, report: Report) -> Fallback | None:
    """None if nothing takes over. `kind` is that of its pools. An invalid annotation is reported, and then
    nothing takes over."""
    if marks.FALLBACK not in annotations:
        return None
    try:
        written = fallbacks.parse(annotations)
    except marks.InvalidAnnotationError as error:
        told = f"{error}; until then, nothing takes over its requests"
        report(f"metadata.annotations[{error.annotation}]", INVALID_ANNOTATION, told)
        return None
    assert written is not None
    return Fallback(
        next=tuple(
            Next(each.model, api.ObjectRef(kind, namespace, each.pool) if each.pool else None, each.provider)
            for each in written.next
        ),
        reasons=written.reasons,
        statuses=written.statuses,
        after_s=written.after_s,
        first_token_s=written.first_token_s,
    )


def pools_of(annotations: Mapping[str, str], kind: str, namespace: str) -> set[api.ObjectRef]:
    """The pools that the annotations name, whether or not they exist."""
    found = fallback(annotations, kind, namespace, _ignored)
    return {each.pool for each in found.next if each.pool is not None} if found is not None else set()


def check(
    annotations: Mapping[str, str], kind: str, pools: Collection[api.ObjectRef], reporter: Reporter
) -> None:
    """Report pools that the annotations name and that are not in `pools`, the existing ones."""
    named = pools_of(annotations, kind, reporter.ref.key.namespace)
    for pool in sorted(named - set(pools)):
        reporter.report(FIELD, POOL_NOT_FOUND, f"there is no {pool}")


def _ignored(field: str, reason: str, message: str) -> None:
    """Whoever translates the object reports it."""
