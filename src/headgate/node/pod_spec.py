"""The spec of a Pod with the fields that only a node uses: volumes, mounts, hooks.

`api.PodSpec` has the others. It is decoded for every Pod of a cluster by all programs, so it stays small; a
node decodes the complete spec once for each Pod that it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from headgate import api
from headgate.api.containers import ObjectFieldSelector, ResourceFieldSelector
from headgate.api.meta import Part

DEFAULT_MESSAGE_PATH = "/dev/termination-log"


class KeyToPath(Part, frozen=True, kw_only=True):
    key: str
    path: str
    mode: int | None = None


class ConfigMapVolume(Part, frozen=True, kw_only=True):
    """Also as a source of a projected volume, which has no `default_mode` of its own."""

    name: str = ""
    items: list[KeyToPath] = []
    default_mode: int | None = None
    optional: bool = False


class SecretVolume(Part, frozen=True, kw_only=True):
    secret_name: str = ""
    items: list[KeyToPath] = []
    default_mode: int | None = None
    optional: bool = False


class DownwardFile(Part, frozen=True, kw_only=True):
    path: str
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: int | None = None


class DownwardVolume(Part, frozen=True, kw_only=True):
    items: list[DownwardFile] = []
    default_mode: int | None = None


class TokenSource(Part, frozen=True, kw_only=True):
    path: str
    audience: str = ""
    expiration_seconds: int = 3600


class ProjectedSource(Part, frozen=True, kw_only=True):
    config_map: ConfigMapVolume | None = None
    secret: ConfigMapVolume | None = None
    """With `name`, unlike the Secret of a volume."""
    downward_api: DownwardVolume | None = msgspec.field(default=None, name="downwardAPI")
    service_account_token: TokenSource | None = None


class ProjectedVolume(Part, frozen=True, kw_only=True):
    sources: list[ProjectedSource] = []
    default_mode: int | None = None


class EmptyDir(Part, frozen=True, kw_only=True):
    medium: str = ""
    size_limit: int | str | None = None


class HostPath(Part, frozen=True, kw_only=True):
    path: str
    type: str = ""


class Claim(Part, frozen=True, kw_only=True):
    claim_name: str
    read_only: bool = False


class Volume(Part, frozen=True, kw_only=True):
    name: str
    kind: str = ""
    """The name of the field that has its source, such as `emptyDir` or `csi`; set by `decode`."""
    empty_dir: EmptyDir | None = None
    host_path: HostPath | None = None
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    projected: ProjectedVolume | None = None
    downward_api: DownwardVolume | None = msgspec.field(default=None, name="downwardAPI")
    persistent_volume_claim: Claim | None = None


class VolumeMount(Part, frozen=True, kw_only=True):
    name: str
    mount_path: str
    read_only: bool = False
    sub_path: str = ""
    sub_path_expr: str = ""


class ExecAction(Part, frozen=True, kw_only=True):
    command: list[str] = []


class GRPCAction(Part, frozen=True, kw_only=True):
    port: int
    service: str = ""
    """Empty: the server as a whole."""


class Probe(api.Probe, frozen=True, kw_only=True):
    exec: ExecAction | None = None
    grpc: GRPCAction | None = None
    termination_grace_period_seconds: int | None = None


class SleepAction(Part, frozen=True, kw_only=True):
    seconds: int


class Hook(Part, frozen=True, kw_only=True):
    exec: ExecAction | None = None
    http_get: api.HTTPGetAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(Part, frozen=True, kw_only=True):
    post_start: Hook | None = None
    pre_stop: Hook | None = None


class Container(api.Container, frozen=True, kw_only=True):
    volume_mounts: list[VolumeMount] = []
    restart_policy: Literal["Always", "OnFailure", "Never"] | None = None
    """Instead of the Pod's. Always makes an init container a sidecar."""
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle = Lifecycle()
    termination_message_path: str = DEFAULT_MESSAGE_PATH
    termination_message_policy: Literal["File", "FallbackToLogsOnError"] = "File"


class ReadinessGate(Part, frozen=True, kw_only=True):
    condition_type: str


class PodSpec(api.PodSpec, frozen=True, kw_only=True):
    containers: list[Container] = []  # type: ignore[assignment]
    init_containers: list[Container] = []  # type: ignore[assignment]
    volumes: list[Volume] = []
    active_deadline_seconds: int | None = None
    readiness_gates: list[ReadinessGate] = []

    def every_container(self) -> Iterator[Container]:
        yield from self.init_containers
        yield from self.containers


def decode(raw: Mapping[str, Any]) -> PodSpec:
    """The spec of a stored Pod. Raises msgspec.ValidationError."""
    volumes = []
    for volume in raw.get("volumes") or ():
        kind = next((name for name in volume if name != "name"), "emptyDir")
        volumes.append({kind: {}, **volume, "kind": kind})
    return msgspec.convert({**raw, "volumes": volumes}, PodSpec)
