"""Converts an InferencePool from v1alpha1 to v1 and back, without loss.

The two are kinds of different API groups, so a cluster may have both and does not convert them itself. Common
fields are translated. What only the source has (v1: further ports, the application protocol, the picker,
conditions by parent; v1alpha1: conditions of the pool) is kept in an annotation, from which the conversion
back restores it. Values that the target's API would reject are reported, all at once.

Metadata is copied; to create the copy, omit `uid` and `resourceVersion`.
"""

from __future__ import annotations

from typing import Final, Literal, TypeVar

import msgspec

from headgate.api import gie_v1, gie_v1alpha1, marks
from headgate.api.meta import Condition, ObjectMeta, Part, Resource

__all__ = ["ConversionError", "to_v1", "to_v1alpha1"]

_MAX_ANNOTATIONS: Final = 256 * 1024
"""Limit of API servers for all annotations of an object, in bytes."""

_V1_MAX_LABELS: Final = 64
_V1_MAX_PORTS: Final = 8


class ConversionError(ValueError):
    """A pool cannot be expressed in the other version; `problems` names each field, its value and the fix."""

    def __init__(self, metadata: ObjectMeta, target: Resource, problems: list[str]) -> None:
        self.problems = problems
        listed = "; ".join(problems)
        super().__init__(f"InferencePool {metadata.key} cannot become {target.api_version}: {listed}")


class _OnlyV1(Part, frozen=True, kw_only=True):
    """What v1alpha1 has no field for; `target_ports` are those after the first."""

    target_ports: list[gie_v1.Port] = []
    app_protocol: Literal["http", "kubernetes.io/h2c"] = "http"
    endpoint_picker_ref: gie_v1.EndpointPickerRef | None = None
    parents: list[gie_v1.ParentStatus] = []


class _OnlyV1alpha1(Part, frozen=True, kw_only=True):
    """What v1 has no field for."""

    conditions: list[Condition] = []


def to_v1(pool: gie_v1alpha1.InferencePool) -> gie_v1.InferencePool:
    """The equivalent stable pool; raises ConversionError."""
    target = gie_v1.InferencePool.resource
    if problems := _not_in_v1(pool.spec):
        raise ConversionError(pool.metadata, target, problems)
    extra, metadata = _taken_out(pool.metadata, marks.POOL_V1, _OnlyV1, target)
    conditions = pool.status.conditions if pool.status else []
    metadata = _put_in(metadata, marks.POOL_V1ALPHA1, _OnlyV1alpha1(conditions=conditions), target)
    first = gie_v1.Port(number=pool.spec.target_port_number)
    others = [port for port in extra.target_ports if port != first]
    spec = gie_v1.InferencePoolSpec(
        selector=gie_v1.LabelSelector(match_labels=pool.spec.selector),
        target_ports=[first, *others][:_V1_MAX_PORTS],
        app_protocol=extra.app_protocol,
        endpoint_picker_ref=extra.endpoint_picker_ref,
    )
    has_status = pool.status is not None or extra.parents
    status = gie_v1.InferencePoolStatus(parents=extra.parents) if has_status else None
    api_version = target.api_version if pool.api_version else ""
    return gie_v1.InferencePool(
        api_version=api_version, kind=pool.kind, metadata=metadata, spec=spec, status=status
    )


def to_v1alpha1(pool: gie_v1.InferencePool) -> gie_v1alpha1.InferencePool:
    """The equivalent experimental pool, on the first port; raises ConversionError."""
    target = gie_v1alpha1.InferencePool.resource
    if not pool.spec.target_ports:
        raise ConversionError(pool.metadata, target, ["spec.targetPorts: must have at least one port"])
    first, *others = pool.spec.target_ports
    extra, metadata = _taken_out(pool.metadata, marks.POOL_V1ALPHA1, _OnlyV1alpha1, target)
    only = _OnlyV1(
        target_ports=others,
        app_protocol=pool.spec.app_protocol,
        endpoint_picker_ref=pool.spec.endpoint_picker_ref,
        parents=pool.status.parents if pool.status else [],
    )
    metadata = _put_in(metadata, marks.POOL_V1, only, target)
    spec = gie_v1alpha1.InferencePoolSpec(
        selector=pool.spec.selector.match_labels, target_port_number=first.number
    )
    has_status = pool.status is not None or extra.conditions
    status = gie_v1alpha1.InferencePoolStatus(conditions=extra.conditions) if has_status else None
    api_version = target.api_version if pool.api_version else ""
    return gie_v1alpha1.InferencePool(
        api_version=api_version, kind=pool.kind, metadata=metadata, spec=spec, status=status
    )


def _not_in_v1(spec: gie_v1alpha1.InferencePoolSpec) -> list[str]:
    problems = []
    if not 1 <= len(spec.selector) <= _V1_MAX_LABELS:
        problems.append(
            f"spec.selector: has {len(spec.selector)} labels; v1 takes 1 to {_V1_MAX_LABELS}, so name "
            "labels that the Pods of this pool, and no others, have"
        )
    if spec.target_port_number < 1:
        problems.append(
            f"spec.targetPortNumber: {spec.target_port_number}; v1 takes 1 to 65535, so give the port that "
            "the model servers listen on"
        )
    return problems


_Kept = TypeVar("_Kept", bound=Part)


def _taken_out(
    metadata: ObjectMeta, name: str, kind: type[_Kept], target: Resource
) -> tuple[_Kept, ObjectMeta]:
    """What an earlier conversion kept in the annotation, and the metadata without it."""
    if (text := metadata.annotations.get(name)) is None:
        return kind(), metadata
    try:
        kept = msgspec.json.decode(text, type=kind)
    except (ValueError, RecursionError) as problem:
        complaint = f"metadata.annotations[{name}]: {problem}; remove it to convert without what it keeps"
        raise ConversionError(metadata, target, [complaint]) from problem
    others = {key: value for key, value in metadata.annotations.items() if key != name}
    return kept, msgspec.structs.replace(metadata, annotations=others)


def _put_in(metadata: ObjectMeta, name: str, kept: Part, target: Resource) -> ObjectMeta:
    """The metadata with an annotation for what the target has no field for, if there is anything."""
    if kept == type(kept)():
        return metadata
    annotations = metadata.annotations | {name: msgspec.json.encode(kept).decode()}
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _MAX_ANNOTATIONS:
        complaint = (
            f"metadata.annotations: would be {size} bytes with what {target.version} has no field for; "
            f"at most {_MAX_ANNOTATIONS} are allowed, so shorten annotations or the messages in the status"
        )
        raise ConversionError(metadata, target, [complaint])
    return msgspec.structs.replace(metadata, annotations=annotations)
