"""The environment and command line of a container's process, as Kubernetes would set them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from headgate import api

_REFERENCE = re.compile(r"\$(\$|\(([^()]*)\))")
_LABEL_PATH = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class ContainerConfigError(Exception):
    """A container cannot be started as specified; the message names the field and the fix."""


class NoCommandError(Exception):
    """A container relies on its image for the command, but images are not pulled."""


@dataclass(frozen=True)
class PodIdentity:
    """Fields of the Pod and node that `fieldRef` can refer to."""

    pod: api.Pod
    node_name: str
    pod_ip: str
    host_ip: str
    port: int | None = None
    """The port to listen on, if Pods share an address."""


def environment(
    container: api.Container, identity: PodIdentity, inherited: Mapping[str, str]
) -> dict[str, str]:
    """The node's own environment, POD_*, then the container's `env`; later ones win.

    Raises ContainerConfigError.
    """
    variables = _always_there(container, identity)
    for index, entry in enumerate(container.env):
        if entry.value_from is not None:
            variables[entry.name] = _field(entry, f"env[{index}] {entry.name}", identity)
        else:
            variables[entry.name] = expand(entry.value or "", variables)
    return {**inherited, **variables}


def command_line(container: api.Container, variables: Mapping[str, str]) -> list[str]:
    """`command` and `args` with $(NAME) references resolved. Raises NoCommandError."""
    if not container.command:
        image = f" (image {container.image!r} is not pulled)" if container.image else ""
        raise NoCommandError(
            f"container {container.name!r} has no command{image}: on one machine a Pod runs as a local "
            "process, so say what to run in command and args"
        )
    return [expand(word, variables) for word in (*container.command, *container.args)]


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


def _field(entry: api.EnvVar, where: str, identity: PodIdentity) -> str:
    assert entry.value_from is not None
    reference = entry.value_from.field_ref
    if reference is None:
        raise ContainerConfigError(
            f"{where}: only valueFrom.fieldRef is supported on one machine; write the value itself"
        )
    path = reference.field_path
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
    keyed = _LABEL_PATH.fullmatch(path)
    if keyed is None:
        raise ContainerConfigError(f"{where}: valueFrom.fieldRef.fieldPath {path!r} is not a supported field")
    values = metadata.labels if keyed[1] == "labels" else metadata.annotations
    return values.get(keyed[2], "")
