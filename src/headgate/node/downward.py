"""Values that a Pod's environment and downwardAPI volumes take from the Pod itself."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headgate import api
from headgate.api.containers import ResourceFieldSelector
from headgate.kubeschema import quantity

_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_RESOURCE = re.compile(r"(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-.+)")
_MILLI = -3


class UnknownFieldError(Exception):
    """There is no such field; the message names the path."""


@dataclass(frozen=True)
class PodIdentity:
    """What a container may learn about its Pod and its node."""

    pod: api.Pod
    node_name: str
    pod_ip: str
    host_ip: str
    port: int | None = None
    """The port to listen on, if Pods share an address."""
    allocatable: Mapping[str, str] = field(default_factory=dict)
    """Resources of the node, which are the limits of containers that have none."""


def pod_field(path: str, identity: PodIdentity) -> str:
    """The value at a `fieldPath`; "" for a label or annotation that is not set. Raises UnknownFieldError."""
    metadata = identity.pod.metadata
    simple = {
        "metadata.name": metadata.name,
        "metadata.namespace": metadata.namespace,
        "metadata.uid": metadata.uid,
        "spec.nodeName": identity.node_name,
        "spec.serviceAccountName": identity.pod.spec.service_account_name,
        "status.podIP": identity.pod_ip,
        "status.podIPs": identity.pod_ip,
        "status.hostIP": identity.host_ip,
        "status.hostIPs": identity.host_ip,
    }
    if path in simple:
        return simple[path]
    keyed = _KEYED.fullmatch(path)
    if keyed is None:
        raise UnknownFieldError(f"fieldRef.fieldPath {path!r} is not a supported field")
    values = metadata.labels if keyed[1] == "labels" else metadata.annotations
    return values.get(keyed[2], "")


def file_field(path: str, identity: PodIdentity) -> str:
    """As `pod_field`; in files, all labels or annotations are allowed as well, one on each line."""
    metadata = identity.pod.metadata
    if path in ("metadata.labels", "metadata.annotations"):
        values = metadata.labels if path == "metadata.labels" else metadata.annotations
        return "\n".join(
            f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in sorted(values.items())
        )
    return pod_field(path, identity)


def resource_field(
    selector: ResourceFieldSelector,
    own_name: str,
    containers: Sequence[api.Container],
    allocatable: Mapping[str, str],
) -> str:
    """The amount of a resource in units of the divisor, rounded up. Raises UnknownFieldError."""
    wanted = _RESOURCE.fullmatch(selector.resource)
    if wanted is None:
        raise UnknownFieldError(
            f"resourceFieldRef.resource {selector.resource!r} is not a supported resource"
        )
    name = selector.container_name or own_name
    container = next((each for each in containers if each.name == name), None)
    if container is None:
        raise UnknownFieldError(f"resourceFieldRef.containerName: the Pod has no container {name!r}")
    amounts = container.resources
    limit = amounts.limits.get(wanted[2])
    if wanted[1] == "limits":
        given = allocatable.get(wanted[2], 0) if limit is None else limit
    else:
        given = amounts.requests.get(wanted[2], 0 if limit is None else limit)
    # Kubernetes computes with thousandths of a CPU, and with whole numbers of everything else.
    unit = _MILLI if wanted[2] == "cpu" else 0
    try:
        amount = quantity.parse(given).rounded_up(unit)
        divisor = quantity.parse(selector.divisor or 1).rounded_up(unit)
    except quantity.QuantityError as error:
        raise UnknownFieldError(f"resourceFieldRef.resource {selector.resource!r}: {error}") from error
    return str(-(-amount // (divisor or quantity.parse(1).rounded_up(unit))))
