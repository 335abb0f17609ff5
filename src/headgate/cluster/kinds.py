"""What this room asks of a kind: a struct that knows its resource and carries metadata."""

from typing import ClassVar, Protocol, TypeVar

from headgate import api


class KubeObject(Protocol):
    """A top-level Kubernetes object: `api.Pod`, `api.ModelRoute` and their like satisfy it."""

    resource: ClassVar[api.Resource]

    @property
    def metadata(self) -> api.ObjectMeta: ...


K = TypeVar("K", bound=KubeObject)
"""The kind that a call or an informer is about."""
