"""Reads from the annotations of an object what takes over its requests."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headgate import api
from headgate.api import fallbacks, marks
from headgate.routing.problems import INVALID_ANNOTATION, Problem, Report, Reporter
from headgate.routing.providers import Provider
from headgate.routing.snapshot import Fallback, Next, Snapshot

POOL_NOT_FOUND = "FallbackNotFound"
PROVIDER_NOT_LISTED = "FallbackNotListed"
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


def not_listed(next: Next, provider: Provider | None) -> str:
    """Why a provider may not be asked for a model; empty if it may. It is None if no settings list it."""
    if provider is None:
        return f"{next.provider}: there is no such provider in the gateway's providers.file"
    if not next.model or next.model in provider.models:
        return ""
    allowed = ", ".join(provider.models)
    return f"{next.model[:256]} is none of the models that {next.provider} may be asked for: {allowed}"


def unlisted(snapshot: Snapshot, listed: Mapping[str, Provider]) -> tuple[Problem, ...]:
    """Fallbacks to providers and models that are not listed, by routes and pools."""
    named = [(each.key, each.fallback) for each in snapshot.routes() if each.fallback is not None]
    named += [(each.key, each.fallback) for each in snapshot.pools.values() if each.fallback is not None]
    found: dict[tuple[api.ObjectRef, Next], Problem] = {}
    for key, fallback in named:
        for next in fallback.next:
            why = not_listed(next, listed.get(next.provider)) if next.provider else ""
            if why:
                found[key, next] = Problem(key.kind, key.key, FIELD, PROVIDER_NOT_LISTED, why)
    return tuple(found.values())


def _ignored(field: str, reason: str, message: str) -> None:
    """Whoever translates the object reports it."""
