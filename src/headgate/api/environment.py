"""Where the environment variables of a container come from (core/v1 EnvVar and EnvFromSource)."""

from __future__ import annotations

from typing import Annotated

from headgate.api.meta import Part, described
from headgate.kubeschema import quantity

_ATOMIC = {"x-kubernetes-map-type": "atomic"}


class ObjectFieldSelector(Part, frozen=True, kw_only=True):
    field_path: Annotated[str, described("Path of a field of the Pod, such as status.podIP.")]
    api_version: Annotated[str, described("Version of the API that the path is written in.")] = ""


class ResourceFieldSelector(Part, frozen=True, kw_only=True):
    resource: Annotated[str, described("Request or limit to read, such as limits.memory.")]
    container_name: Annotated[str, described("Container that it belongs to. Unset: this one.")] = ""
    divisor: Annotated[
        int | str | None, described("Unit that the value is given in. Unset: 1.", **quantity.SCHEMA)
    ] = None


class KeySelector(Part, frozen=True, kw_only=True):
    """One key of a ConfigMap or Secret in the same namespace."""

    key: Annotated[str, described("Key whose value is taken.")]
    name: Annotated[str, described("Name of the object.")] = ""
    optional: Annotated[bool | None, described("Whether the object or the key may be missing.")] = None


class EnvVarSource(Part, frozen=True, kw_only=True):
    field_ref: Annotated[ObjectFieldSelector | None, described("A field of the Pod.", **_ATOMIC)] = None
    resource_field_ref: Annotated[
        ResourceFieldSelector | None, described("A resource request or limit of a container.", **_ATOMIC)
    ] = None
    config_map_key_ref: Annotated[KeySelector | None, described("A key of a ConfigMap.", **_ATOMIC)] = None
    secret_key_ref: Annotated[KeySelector | None, described("A key of a Secret.", **_ATOMIC)] = None


class EnvVar(Part, frozen=True, kw_only=True):
    name: Annotated[str, described("Name of the variable.")]
    value: Annotated[str | None, described("Its value; $(NAME) stands for a variable above.")] = None
    value_from: Annotated[EnvVarSource | None, described("Where the value comes from instead.")] = None


class EnvSource(Part, frozen=True, kw_only=True):
    """A whole ConfigMap or Secret in the same namespace."""

    name: Annotated[str, described("Name of the object.")] = ""
    optional: Annotated[bool | None, described("Whether the object may be missing.")] = None


class EnvFromSource(Part, frozen=True, kw_only=True):
    prefix: Annotated[str, described("Put before each key to make the name of the variable.")] = ""
    config_map_ref: Annotated[
        EnvSource | None, described("Every key of this ConfigMap becomes a variable.", **_ATOMIC)
    ] = None
    secret_ref: Annotated[
        EnvSource | None, described("Every key of this Secret becomes a variable.", **_ATOMIC)
    ] = None
