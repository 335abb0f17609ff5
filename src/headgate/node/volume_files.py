"""The files of a volume whose content comes from the API: configMap, secret, downwardAPI, projected.

Computes contents and modes only; `payload` writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from headgate.node import downward, pod_spec
from headgate.node.downward import PodIdentity
from headgate.node.references import Found, Reference

DEFAULT_MODE = 0o644


class VolumeError(Exception):
    """A volume cannot be provided; the message names what is missing."""


@dataclass(frozen=True)
class File:
    """A file of a volume; the path is relative to the volume."""

    path: str
    content: bytes
    mode: int


@dataclass(frozen=True)
class Inputs:
    """What the files are made from."""

    spec: pod_spec.PodSpec
    identity: PodIdentity
    found: Found
    tokens: Mapping[pod_spec.TokenSource, str]


@dataclass(frozen=True)
class _Objects:
    """Files from one ConfigMap or Secret."""

    reference: Reference
    items: Sequence[pod_spec.KeyToPath]
    optional: bool


_Source = _Objects | pod_spec.DownwardVolume | pod_spec.TokenSource | None
"""None for a source of a kind that is not supported."""


def is_written(volume: pod_spec.Volume) -> bool:
    """Whether the volume consists of files from the API, which containers cannot change."""
    sources = (volume.config_map, volume.secret, volume.downward_api, volume.projected)
    return any(each is not None for each in sources)


def references(volume: pod_spec.Volume) -> Iterator[Reference]:
    """The objects that a volume is made of."""
    return (each.reference for each in _sources(volume) if isinstance(each, _Objects))


def tokens(volume: pod_spec.Volume) -> Iterator[pod_spec.TokenSource]:
    return (each for each in _sources(volume) if isinstance(each, pod_spec.TokenSource))


def files(volume: pod_spec.Volume, inputs: Inputs) -> list[File]:
    """All files; later sources replace files of earlier ones. Raises VolumeError."""
    mode = _default_mode(volume)
    made: dict[str, File] = {}
    for source in _sources(volume):
        for file in _files(source, mode, inputs):
            made[_checked(file.path)] = file
    return list(made.values())


def _sources(volume: pod_spec.Volume) -> Iterator[_Source]:
    if volume.config_map is not None:
        yield _objects("ConfigMap", volume.config_map.name, volume.config_map)
    elif volume.secret is not None:
        yield _objects("Secret", volume.secret.secret_name, volume.secret)
    elif volume.downward_api is not None:
        yield volume.downward_api
    elif volume.projected is not None:
        for source in volume.projected.sources:
            yield from _projected(source)


def _projected(source: pod_spec.ProjectedSource) -> Iterator[_Source]:
    if source.config_map is not None:
        yield _objects("ConfigMap", source.config_map.name, source.config_map)
    elif source.secret is not None:
        yield _objects("Secret", source.secret.name, source.secret)
    elif source.downward_api is not None:
        yield source.downward_api
    elif source.service_account_token is not None:
        yield source.service_account_token
    else:
        yield None


def _objects(kind: str, name: str, source: pod_spec.ConfigMapVolume | pod_spec.SecretVolume) -> _Objects:
    reference = Reference("ConfigMap" if kind == "ConfigMap" else "Secret", name)
    return _Objects(reference, source.items, source.optional)


def _default_mode(volume: pod_spec.Volume) -> int:
    for source in (volume.config_map, volume.secret, volume.downward_api, volume.projected):
        if source is not None and source.default_mode is not None:
            return source.default_mode
    return DEFAULT_MODE


def _files(source: _Source, mode: int, inputs: Inputs) -> Iterator[File]:
    if isinstance(source, _Objects):
        yield from _of_object(source, mode, inputs.found)
    elif isinstance(source, pod_spec.TokenSource):
        yield File(source.path, inputs.tokens[source].encode(), mode)
    elif source is None:
        raise VolumeError("a source of its projected volume is of a kind that is not supported here")
    else:
        for item in source.items:
            chosen = mode if item.mode is None else item.mode
            yield File(item.path, _downward(item, inputs).encode(), chosen)


def _of_object(source: _Objects, mode: int, found: Found) -> Iterator[File]:
    contents = found[source.reference]
    if contents is None:
        if not source.optional:
            raise VolumeError(f"{source.reference} not found")
        return
    if not source.items:
        yield from (File(key, content, mode) for key, content in contents.files.items())
    for item in source.items:
        content = contents.files.get(item.key)
        if content is not None:
            yield File(item.path, content, mode if item.mode is None else item.mode)
        elif not source.optional:
            raise VolumeError(f"key {item.key!r} not found in {source.reference}")


def _downward(item: pod_spec.DownwardFile, inputs: Inputs) -> str:
    try:
        if item.field_ref is not None:
            return downward.file_field(item.field_ref.field_path, inputs.identity)
        if item.resource_field_ref is not None:
            containers = list(inputs.spec.every_container())
            allocatable = inputs.identity.allocatable
            return downward.resource_field(item.resource_field_ref, "", containers, allocatable)
    except downward.UnknownFieldError as error:
        raise VolumeError(f"file {item.path!r}: {error}") from error
    raise VolumeError(f"file {item.path!r} has neither a fieldRef nor a resourceFieldRef")


def _checked(path: str) -> str:
    """The path, if it stays inside the volume and does not collide with the names that swap versions."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or parts[0].startswith("..") or "\0" in path:
        raise VolumeError(f"the path {path!r} of a file must be relative and must not begin with '..'")
    return str(PurePosixPath(path))
