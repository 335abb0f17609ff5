"""Pod fields that have an effect in Kubernetes but not on one machine, so that they can be reported.

Fields that only matter with many machines or in an image's sandbox (tolerations, resource requests, ...) are
not included: without them, a Pod means the same here.
"""

from collections.abc import Iterator, Mapping
from typing import Any

_POD = (
    "hostNetwork",
    "hostAliases",
    "dnsConfig",
    "securityContext",
    "ephemeralContainers",
)
_CONTAINER = ("volumeDevices", "securityContext")


def unsupported(spec: Mapping[str, Any]) -> list[str]:
    """Paths of fields in a Pod's raw `spec` that are set but have no effect."""
    return list(_fields(spec))


def _fields(spec: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"spec.{name}" for name in _POD if spec.get(name))
    for volume in spec.get("volumes") or ():
        if (volume.get("emptyDir") or {}).get("sizeLimit"):
            yield f"spec.volumes[{volume.get('name')}].emptyDir.sizeLimit"
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            where = f"spec.{kind}[{container.get('name')}]"
            yield from (f"{where}.{name}" for name in _CONTAINER if container.get(name))
            if (container.get("resources") or {}).get("limits"):
                yield f"{where}.resources.limits"
