"""Which endpoints of an InferencePool prefill and which decode, by the well-known label of their Pods.

Any Pod that prefills may hand over to any that decodes: all of a pool are one group.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate import api
from headgate.api import marks
from headgate.api.kthena_networking import CONNECTORS
from headgate.routing import phases
from headgate.routing.problems import INVALID_ANNOTATION, Report
from headgate.routing.snapshot import Connector, Endpoint, PrefillDecode, Role

PREFILLS = frozenset({"prefill", "encode-prefill", "prefill-decode", "encode-prefill-decode", "both"})
DECODES = frozenset({"", "decode", "prefill-decode", "encode-prefill-decode", "both"})
"""Values of the label. Pods without it decode; those of other roles, such as `encode`, do neither."""

_GROUP = "pool"
_CONNECTORS: Mapping[str, Connector] = {each: each for each in CONNECTORS}
_DEFAULT: Connector = "nixl"


def of_pool(
    notes: Mapping[str, str], engine: str, pods: Mapping[Endpoint, api.Pod], field: str, report: Report
) -> PrefillDecode | None:
    """The roles of those endpoints that have one; None where each does both, or says nothing.

    `notes` are the annotations of the pool, `engine` what its endpoints run, `field` what selects its Pods.
    """
    found = {endpoint: role for endpoint, pod in pods.items() if (role := _role(pod, field, report))}
    if len(found) == len(pods) and not _is_apart(pods, found):
        return None
    without = [endpoint.name for endpoint in pods if endpoint not in found]
    if without:
        told = f"has a label {marks.ROLE} that says neither prefill nor decode and gets no requests"
        report(field, phases.NO_ROLE, f"{phases.named(without)} {told}")
    for problem in phases.incomplete(found, None):
        report(field, phases.INCOMPLETE_GROUP, problem)
    return PrefillDecode(
        connector=phases.connector(engine, _connector(notes, report)) or _DEFAULT,
        roles=found,
        remote_tokens=phases.remote_tokens(notes, report),
    )


def _is_apart(pods: Mapping[Endpoint, api.Pod], roles: Mapping[Endpoint, Role]) -> bool:
    """Whether any Pod says that it leaves one of the phases to others."""
    return any(
        marks.ROLE in pods[endpoint].metadata.labels
        for endpoint, role in roles.items()
        if not (role.prefills and role.decodes)
    )


def _role(pod: api.Pod, field: str, report: Report) -> Role | None:
    label = pod.metadata.labels.get(marks.ROLE, "")
    prefills, decodes = label in PREFILLS, label in DECODES
    if not (prefills or decodes):
        return None
    role = Role(prefills=prefills, decodes=decodes, group=_GROUP)
    return phases.with_bootstrap_port(role, pod, field, report)


def _connector(notes: Mapping[str, str], report: Report) -> Connector | None:
    given = notes.get(marks.KV_CONNECTOR)
    if given is None or given in _CONNECTORS:
        return _CONNECTORS.get(given or "")
    told = f"{given[:64]!r} is none of {', '.join(CONNECTORS)}; that of the engine counts"
    report(f"metadata.annotations[{marks.KV_CONNECTOR}]", INVALID_ANNOTATION, told)
    return None
