"""The part of a Pod that routing and statuses read, for informers that keep thousands of them.

A Pod has 5 to 10 KB, of which routing reads a few hundred bytes; and most of these are the same for all Pods
of a Deployment, so equal parts are one object.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import msgspec

from headgate import api
from headgate.api import marks
from headgate.api.core import ContainerPort, PodSpec, PodStatus
from headgate.api.meta import Condition

_METADATA, _STATUS, _SPEC, _CONTAINER = api.ObjectMeta(), PodStatus(), PodSpec(), api.Container(name="x")
"""With all their empty lists, which the copies share."""
_READY, _NOT_READY = ([Condition(type="Ready", status=status)] for status in ("True", "False"))
_TEMPLATES = 4096
"""Equal parts that are remembered, such as the labels and containers of each Deployment of a cluster."""


def reduced(pod: api.Pod) -> api.Pod:
    """The Pod without the fields that neither routing nor a status reads."""
    metadata, status = pod.metadata, pod.status
    return api.Pod(
        metadata=msgspec.structs.replace(
            _METADATA,
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            deletion_timestamp=metadata.deletion_timestamp,
            labels=_texts(tuple(metadata.labels.items())),
            annotations=_texts(
                tuple(each for each in metadata.annotations.items() if each[0] in marks.OF_PODS)
            ),
        ),
        spec=_spec(tuple(map(_template, pod.spec.containers))),
        status=msgspec.structs.replace(
            _STATUS,
            phase=status.phase,
            conditions=_READY if status.ready else _NOT_READY,
            pod_ip=status.pod_ip,
        ),
    )


@functools.lru_cache(maxsize=_TEMPLATES)
def _texts(items: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(items)


_Template = tuple[str, tuple[str, ...], tuple[str, ...], tuple[tuple[str, int], ...]]
"""Name, command, arguments and ports of a container."""


def _template(container: api.Container) -> _Template:
    ports = tuple((port.name, port.container_port) for port in container.ports)
    return container.name, tuple(container.command), tuple(container.args), ports


@functools.lru_cache(maxsize=_TEMPLATES)
def _spec(containers: Sequence[_Template]) -> PodSpec:
    made = [
        msgspec.structs.replace(
            _CONTAINER,
            name=name,
            command=list(command),
            args=list(args),
            ports=[ContainerPort(name=port, container_port=number) for port, number in ports],
        )
        for name, command, args, ports in containers
    ]
    return msgspec.structs.replace(_SPEC, containers=made)
