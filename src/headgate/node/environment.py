"""The environment and command line of a container's process, as Kubernetes would set them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from headgate import api
from headgate.api.containers import EnvFromSource, EnvVarSource, KeySelector
from headgate.node import downward, images
from headgate.node.downward import PodIdentity
from headgate.node.images import NO_IMAGES, ImagePrograms
from headgate.node.references import Found, Reference

_REFERENCE = re.compile(r"\$(\$|\(([^()]*)\))")
_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")


class ContainerConfigError(Exception):
    """A container cannot be started as specified; the message names the field and the fix."""


class NoCommandError(Exception):
    """A container relies on its image for the command, but images are not pulled."""


@dataclass(frozen=True)
class Environment:
    """The variables of a container."""

    inherited: Mapping[str, str]
    """The node's own."""
    own: Mapping[str, str]
    """Those of the Pod, which take precedence."""
    skipped: Mapping[Reference, list[str]]
    """Keys of `envFrom` objects that are no names of variables."""

    @property
    def variables(self) -> dict[str, str]:
        return {**self.inherited, **self.own}


def references(container: api.Container) -> Iterator[Reference]:
    """The objects that the environment of a container is taken from."""
    for source in container.env_from:
        if (found := _whole(source)) is not None:
            yield found[0]
    for entry in container.env:
        if entry.value_from is not None and (key := _key(entry.value_from)) is not None:
            yield key[0]


def environment(
    container: api.Container,
    identity: PodIdentity,
    inherited: Mapping[str, str],
    found: Found,
    defaults: Mapping[str, str] = MappingProxyType({}),
) -> Environment:
    """The node's own environment, `defaults`, POD_*, then the container's `envFrom` and `env`; later ones
    win.

    `found` has all `references`. Raises ContainerConfigError.
    """
    variables = {**defaults, **_always_there(container, identity)}
    skipped: dict[Reference, list[str]] = {}
    for index, source in enumerate(container.env_from):
        _add_all(source, f"envFrom[{index}]", variables, skipped, found)
    for index, entry in enumerate(container.env):
        if entry.value_from is None:
            variables[entry.name] = expand(entry.value or "", variables)
            continue
        where = f"env[{index}] {entry.name}"
        value = _value(entry.value_from, where, container, identity, found)
        if value is not None:
            variables[entry.name] = value
    return Environment(inherited, variables, skipped)


def command_line(
    container: api.Container, variables: Mapping[str, str], known: ImagePrograms = NO_IMAGES
) -> list[str]:
    """Command and arguments with $(NAME) references resolved. Raises NoCommandError."""
    words = images.command_of(container, known.find(container.image))
    if words:
        return [expand(word, variables) for word in words]
    if not container.image:
        raise NoCommandError(f"container {container.name!r} has neither a command nor an image")
    raise NoCommandError(
        f"container {container.name!r} has no command, and images are not pulled: set its command, or "
        f"{known.hint(container.image)}"
    )


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace $(NAME) with the variable's value; $$ is a literal $, unknown names stay as they are."""

    def resolved(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return variables.get(match[2], match[0])

    return _REFERENCE.sub(resolved, text)


def _always_there(container: api.Container, identity: PodIdentity) -> dict[str, str]:
    metadata = identity.pod.metadata
    variables = {
        "POD_NAME": metadata.name,
        "POD_NAMESPACE": metadata.namespace,
        "POD_IP": identity.pod_ip,
        # Logs are read from a pipe: without this, Python programs buffer them in blocks of 8 KB.
        "PYTHONUNBUFFERED": "1",
    }
    port = identity.port or next((each.container_port for each in container.ports), None)
    if port is not None:
        variables["POD_PORT"] = str(port)
    return variables


# Whole objects


def _whole(source: EnvFromSource) -> tuple[Reference, bool] | None:
    """The object, and whether it may be missing."""
    if source.config_map_ref is not None:
        return Reference("ConfigMap", source.config_map_ref.name), bool(source.config_map_ref.optional)
    if source.secret_ref is not None:
        return Reference("Secret", source.secret_ref.name), bool(source.secret_ref.optional)
    return None


def _add_all(
    source: EnvFromSource,
    where: str,
    variables: dict[str, str],
    skipped: dict[Reference, list[str]],
    found: Found,
) -> None:
    wanted = _whole(source)
    if wanted is None:
        return
    reference, optional = wanted
    contents = found[reference]
    if contents is None:
        if not optional:
            raise ContainerConfigError(f"{where}: {reference} not found")
        return
    for key, value in sorted(contents.texts.items()):
        name = source.prefix + key
        if _is_name(name):
            variables[name] = _text(value, f"{where}: key {key!r} of {reference}")
        else:
            skipped.setdefault(reference, []).append(key)


def _is_name(name: str) -> bool:
    """Whether Kubernetes takes it for a variable's name; names that look like paths are not."""
    return _NAME.fullmatch(name) is not None and name != "." and not name.startswith("..")


# Single values


def _value(
    source: EnvVarSource, where: str, container: api.Container, identity: PodIdentity, found: Found
) -> str | None:
    """None for a value that is optional and missing."""
    key = _key(source)
    if key is not None:
        return _value_of_key(*key, where, found)
    try:
        if source.field_ref is not None:
            return downward.pod_field(source.field_ref.field_path, identity)
        if source.resource_field_ref is not None:
            spec = identity.pod.spec
            containers = (*spec.init_containers, *spec.containers)
            return downward.resource_field(
                source.resource_field_ref, container.name, containers, identity.allocatable
            )
    except downward.UnknownFieldError as error:
        raise ContainerConfigError(f"{where}: valueFrom.{error}") from error
    raise ContainerConfigError(f"{where}: valueFrom has no source that is supported here")


def _key(source: EnvVarSource) -> tuple[Reference, KeySelector] | None:
    if source.config_map_key_ref is not None:
        return Reference("ConfigMap", source.config_map_key_ref.name), source.config_map_key_ref
    if source.secret_key_ref is not None:
        return Reference("Secret", source.secret_key_ref.name), source.secret_key_ref
    return None


def _value_of_key(reference: Reference, selector: KeySelector, where: str, found: Found) -> str | None:
    contents = found[reference]
    value = None if contents is None else contents.texts.get(selector.key)
    if value is not None:
        return _text(value, f"{where}: key {selector.key!r} of {reference}")
    if selector.optional:
        return None
    if contents is None:
        raise ContainerConfigError(f"{where}: {reference} not found, of which key {selector.key!r} is wanted")
    raise ContainerConfigError(f"{where}: key {selector.key!r} not found in {reference}")


def _text(value: bytes, what: str) -> str:
    if b"\0" in value:
        raise ContainerConfigError(f"{what} contains a null byte, which no environment variable can hold")
    return value.decode(errors="surrogateescape")
