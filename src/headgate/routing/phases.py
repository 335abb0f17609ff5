"""Which endpoints of a ModelServer prefill and which decode, and how they hand the KV cache over.

A Pod has a role by its labels, besides those that all of the server's Pods have. What cannot take part is a
Problem: a Pod without a role serves nothing, and a decode Pod without prefill Pods in its group serves alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate import api
from headgate.api import marks
from headgate.api.kthena_networking import PDGroup
from headgate.routing.problems import INVALID_ANNOTATION, Report
from headgate.routing.snapshot import Connector, Endpoint, PrefillDecode, Role

NO_ROLE = "PodWithoutRole"
NO_GROUP = "PodWithoutGroup"
INCOMPLETE_GROUP = "GroupIncomplete"

FIELD = "spec.workloadSelector.pdGroup"
_MOST_TOKENS = 10_000_000
_SHOWN = 5
"""Pods or groups that one problem names."""


def phases(server: api.ModelServer, pods: Mapping[Endpoint, api.Pod], report: Report) -> PrefillDecode | None:
    """The roles of those endpoints that have one; None where the server has no pdGroup."""
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
        report(FIELD, NO_ROLE, f"{_named(without_role)} {told}")
    if without_group:
        told = f"has no label {group.group_key} and is paired with none: set it to the name of a group"
        report(f"{FIELD}.groupKey", NO_GROUP, f"{_named(without_group)} {told}")
    for problem in _incomplete(roles, group.group_key):
        report(FIELD, INCOMPLETE_GROUP, problem)
    return PrefillDecode(
        connector=_connector(server), roles=roles, remote_tokens=_remote_tokens(server, report)
    )


def _role(group: PDGroup, pod: api.Pod, report: Report) -> Role | None:
    labels, notes = pod.metadata.labels, pod.metadata.annotations
    prefills, decodes = _has(group.prefill_labels, labels), _has(group.decode_labels, labels)
    if not (prefills or decodes):
        return None
    role = Role(prefills=prefills, decodes=decodes, group=labels.get(group.group_key))
    given = notes.get(marks.BOOTSTRAP_PORT) if prefills else None
    if given is None:
        return role
    port = _number(given, 65535)
    if not port:
        told = f"Pod {pod.metadata.key}, metadata.annotations[{marks.BOOTSTRAP_PORT}]: {given!r} is no port"
        report(FIELD, INVALID_ANNOTATION, f"{told}; {role.bootstrap_port} is used")
        return role
    return Role(prefills=prefills, decodes=decodes, group=role.group, bootstrap_port=port)


def _has(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """No labels fit nobody: every Pod would have the role by accident."""
    return bool(wanted) and wanted.items() <= labels.items()


def _incomplete(roles: Mapping[Endpoint, Role], key: str) -> list[str]:
    """Groups in which one of the roles has no ready Pod, in words."""
    prefilling = {role.group for role in roles.values() if role.prefills}
    decoding = {role.group for role in roles.values() if role.decodes}
    alone = sorted(group for group in decoding - prefilling if group is not None)
    idle = sorted(group for group in prefilling - decoding if group is not None)
    told = []
    if alone:
        told.append(
            f"no Pod to prefill is ready in {_groups(key, alone)}: prompts are prefilled where possible "
            "by those that decode"
        )
    if idle:
        told.append(f"no Pod to decode is ready in {_groups(key, idle)}: those that prefill get no requests")
    return told


def _groups(key: str, values: list[str]) -> str:
    return ", ".join(f"{key}={value}" for value in values[:_SHOWN]) + _more(values)


def _named(pods: list[str]) -> str:
    """The Pods as the subject of a sentence about each of them."""
    if len(pods) == 1:
        return f"Pod {pods[0]}"
    return f"Each of the {len(pods)} Pods {', '.join(pods[:_SHOWN])}{_more(pods)}"


def _more(items: list[str]) -> str:
    return f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""


def _connector(server: api.ModelServer) -> Connector:
    """SGLang's servers find each other, whatever carries the cache: nixl and mooncake are two such carriers.

    With http and lmcache, both servers are ordinary ones that share a store.
    """
    given = server.spec.kv_connector.type if server.spec.kv_connector is not None else None
    if server.spec.inference_engine == "SGLang" and given in (None, "nixl", "mooncake"):
        return "sglang"
    return given or "http"


def _remote_tokens(server: api.ModelServer, report: Report) -> int | None:
    given = server.metadata.annotations.get(marks.REMOTE_PREFILL_TOKENS)
    if given is None:
        return None
    tokens = _number(given, _MOST_TOKENS)
    if tokens is None:
        told = f"{given[:64]!r} is no number from 0 to {_MOST_TOKENS}; the setting of the gateway counts"
        report(f"metadata.annotations[{marks.REMOTE_PREFILL_TOKENS}]", INVALID_ANNOTATION, told)
    return tokens


def _number(text: str, most: int) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most)) and int(text) <= most
    return int(text) if is_number else None
