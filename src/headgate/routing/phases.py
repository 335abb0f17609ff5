"""Prefill and decode roles of a pool's endpoints, and the connector for their KV cache.

A Pod of a ModelServer has a role by the labels in pdGroup, in addition to those of all its Pods;
`phases_by_label` is for InferencePools. Pods that cannot take part are Problems: a Pod without a role serves
nothing, and a decode Pod without prefill Pods in its group serves alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headgate import api
from headgate.api import marks
from headgate.api.kthena_networking import CONNECTORS, PDGroup
from headgate.routing.problems import INVALID_ANNOTATION, Report
from headgate.routing.snapshot import Connector, Endpoint, PrefillDecode, Role

NO_ROLE = "PodWithoutRole"
NO_GROUP = "PodWithoutGroup"
INCOMPLETE_GROUP = "GroupIncomplete"

FIELD = "spec.workloadSelector.pdGroup"
_MAX_TOKENS = 10_000_000
_SHOWN = 5
"""Pods or groups named in one problem."""


def phases(server: api.ModelServer, pods: Mapping[Endpoint, api.Pod], report: Report) -> PrefillDecode | None:
    """The roles of endpoints that have one; None if the server has no pdGroup."""
    group = server.spec.workload_selector.pd_group
    if group is None:
        return None
    roles: dict[Endpoint, Role] = {}
    without_role, without_group = [], []
    for endpoint, pod in pods.items():
        role = _role(group, pod, report)
        if role is None:
            without_role.append(endpoint.name)
            continue
        if role.group is None:
            without_group.append(endpoint.name)
        roles[endpoint] = role
    if without_role:
        told = "has neither prefillLabels nor decodeLabels and gets no requests"
        report(FIELD, NO_ROLE, f"{named(without_role)} {told}")
    if without_group:
        told = f"has no label {group.group_key} and is paired with none: set it to the name of a group"
        report(f"{FIELD}.groupKey", NO_GROUP, f"{named(without_group)} {told}")
    for problem in incomplete(roles, group.group_key):
        report(FIELD, INCOMPLETE_GROUP, problem)
    given = server.spec.kv_connector.type if server.spec.kv_connector is not None else None
    return PrefillDecode(
        connector=connector(server.spec.inference_engine, given) or "http",
        roles=roles,
        remote_tokens=remote_tokens(server.metadata.annotations, report),
    )


def _role(group: PDGroup, pod: api.Pod, report: Report) -> Role | None:
    labels = pod.metadata.labels
    prefills, decodes = _has(group.prefill_labels, labels), _has(group.decode_labels, labels)
    if not (prefills or decodes):
        return None
    role = Role(prefills=prefills, decodes=decodes, group=labels.get(group.group_key))
    return with_bootstrap_port(role, pod, FIELD, report)


def _has(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether `labels` include all wanted ones. An empty set matches no Pod: otherwise every Pod would have
    the role by accident."""
    return bool(wanted) and wanted.items() <= labels.items()


def with_bootstrap_port(role: Role, pod: api.Pod, field: str, report: Report) -> Role:
    """The role with the port of the Pod's annotation, if it prefills and has one."""
    given = pod.metadata.annotations.get(marks.BOOTSTRAP_PORT) if role.prefills else None
    if given is None:
        return role
    port = _number(given, 65535)
    if not port:
        annotation = f"metadata.annotations[{marks.BOOTSTRAP_PORT}]"
        told = f"Pod {pod.metadata.key}, {annotation}: {given!r} is not a port"
        report(field, INVALID_ANNOTATION, f"{told}; {role.bootstrap_port} is used")
        return role
    return msgspec.structs.replace(role, bootstrap_port=port)


def incomplete(roles: Mapping[Endpoint, Role], key: str | None) -> list[str]:
    """Groups in which no Pod of one role is ready, in words. `key` is the label of the groups; None if all
    are one."""
    prefilling = {role.group for role in roles.values() if role.prefills}
    decoding = {role.group for role in roles.values() if role.decodes}
    alone = sorted(group for group in decoding - prefilling if group is not None)
    idle = sorted(group for group in prefilling - decoding if group is not None)
    told = []
    if alone:
        told.append(
            f"no Pod to prefill is ready{_groups(key, alone)}: prompts are prefilled where possible "
            "by those that decode"
        )
    if idle:
        told.append(f"no Pod to decode is ready{_groups(key, idle)}: those that prefill get no requests")
    return told


def _groups(key: str | None, values: list[str]) -> str:
    if key is None:
        return ""
    return " in " + ", ".join(f"{key}={value}" for value in values[:_SHOWN]) + _more(values)


def named(pods: list[str]) -> str:
    """The Pods as the subject of a sentence about each of them."""
    if len(pods) == 1:
        return f"Pod {pods[0]}"
    return f"Each of the {len(pods)} Pods {', '.join(pods[:_SHOWN])}{_more(pods)}"


def _more(items: list[str]) -> str:
    return f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""


def connector(engine: str, given: Connector | None) -> Connector | None:
    """The connector in effect. SGLang's servers connect by themselves; nixl and mooncake are only their
    transfer backends.

    With http and lmcache, both servers are ordinary ones that share a store.
    """
    return "sglang" if engine == "SGLang" and given in (None, "nixl", "mooncake") else given


def remote_tokens(notes: Mapping[str, str], report: Report) -> int | None:
    """The threshold in the pool's annotation; None leaves it to the gateway."""
    given = notes.get(marks.REMOTE_PREFILL_TOKENS)
    if given is None:
        return None
    tokens = _number(given, _MAX_TOKENS)
    if tokens is None:
        told = f"{given[:64]!r} is not a number from 0 to {_MAX_TOKENS}; the gateway's setting is used"
        report(f"metadata.annotations[{marks.REMOTE_PREFILL_TOKENS}]", INVALID_ANNOTATION, told)
    return tokens


def _number(text: str, most: int) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most)) and int(text) <= most
    return int(text) if is_number else None


# Roles of an InferencePool's endpoints, by the well-known label of their Pods.
#
# Any prefill Pod may hand over to any decode Pod: the pool is one group.
PREFILLS = frozenset({"prefill", "encode-prefill", "prefill-decode", "encode-prefill-decode", "both"})
DECODES = frozenset({"", "decode", "prefill-decode", "encode-prefill-decode", "both"})
"""Values of the label. Pods without it decode; those with other roles, such as `encode`, have neither."""

_GROUP = "pool"
_CONNECTORS: Mapping[str, Connector] = {each: each for each in CONNECTORS}
_DEFAULT: Connector = "nixl"


def phases_by_label(
    notes: Mapping[str, str], engine: str, pods: Mapping[Endpoint, api.Pod], field: str, report: Report
) -> PrefillDecode | None:
    """The roles of endpoints that have one; None if every endpoint does both, or has no label.

    `notes`: annotations of the pool. `engine`: the engine of its endpoints. `field`: the field that selects
    its Pods.
    """
    found = {endpoint: role for endpoint, pod in pods.items() if (role := _labelled_role(pod, field, report))}
    if len(found) == len(pods) and not _is_apart(pods, found):
        return None
    without = [endpoint.name for endpoint in pods if endpoint not in found]
    if without:
        told = f"has a label {marks.ROLE} that says neither prefill nor decode and gets no requests"
        report(field, NO_ROLE, f"{named(without)} {told}")
    for problem in incomplete(found, None):
        report(field, INCOMPLETE_GROUP, problem)
    return PrefillDecode(
        connector=connector(engine, _named_connector(notes, report)) or _DEFAULT,
        roles=found,
        remote_tokens=remote_tokens(notes, report),
    )


def _is_apart(pods: Mapping[Endpoint, api.Pod], roles: Mapping[Endpoint, Role]) -> bool:
    """Whether any Pod has a label for only one of the phases."""
    return any(
        marks.ROLE in pods[endpoint].metadata.labels
        for endpoint, role in roles.items()
        if not (role.prefills and role.decodes)
    )


def _labelled_role(pod: api.Pod, field: str, report: Report) -> Role | None:
    label = pod.metadata.labels.get(marks.ROLE, "")
    prefills, decodes = label in PREFILLS, label in DECODES
    if not (prefills or decodes):
        return None
    role = Role(prefills=prefills, decodes=decodes, group=_GROUP)
    return with_bootstrap_port(role, pod, field, report)


def _named_connector(notes: Mapping[str, str], report: Report) -> Connector | None:
    given = notes.get(marks.KV_CONNECTOR)
    if given is None or given in _CONNECTORS:
        return _CONNECTORS.get(given or "")
    told = f"{given[:64]!r} is none of {', '.join(CONNECTORS)}; that of the engine counts"
    report(f"metadata.annotations[{marks.KV_CONNECTOR}]", INVALID_ANNOTATION, told)
    return None
