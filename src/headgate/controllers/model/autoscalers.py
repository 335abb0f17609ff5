"""Which workloads an autoscaler scales, so that their replicas are left to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from headgate import api, cluster
from headgate.api.horizontal import HorizontalPodAutoscaler
from headgate.api.meta import Part


class _Reference(Part, frozen=True, kw_only=True):
    kind: str = ""
    name: str = ""


class _Target(Part, frozen=True, kw_only=True):
    target_ref: _Reference = _Reference()


class _Scaling(Part, frozen=True, kw_only=True):
    target: _Target = _Target()


class _Optimizer(Part, frozen=True, kw_only=True):
    params: list[_Scaling] = []


class _BindingSpec(Part, frozen=True, kw_only=True):
    scaling_configuration: _Scaling | None = None
    optimizer_configuration: _Optimizer | None = None


class Binding(Part, frozen=True, kw_only=True):
    """An AutoscalingPolicyBinding, of a Model or not."""

    resource: ClassVar[api.Resource] = api.AutoscalingPolicyBinding.resource

    metadata: api.ObjectMeta = api.ObjectMeta()
    spec: _BindingSpec = _BindingSpec()

    def targets(self) -> Iterator[_Reference]:
        one, several = self.spec.scaling_configuration, self.spec.optimizer_configuration
        if one is not None:
            yield one.target.target_ref
        if several is not None:
            yield from (each.target.target_ref for each in several.params)


class _HorizontalSpec(Part, frozen=True, kw_only=True):
    scale_target_ref: _Reference = _Reference()


class Horizontal(Part, frozen=True, kw_only=True):
    """A HorizontalPodAutoscaler."""

    resource: ClassVar[api.Resource] = HorizontalPodAutoscaler.resource

    metadata: api.ObjectMeta = api.ObjectMeta()
    spec: _HorizontalSpec = _HorizontalSpec()

    def targets(self) -> Iterator[_Reference]:
        yield self.spec.scale_target_ref


Autoscaler: TypeAlias = Binding | Horizontal
KINDS: Final[tuple[type[Autoscaler], ...]] = (Binding, Horizontal)


class Workload(NamedTuple):
    namespace: str
    kind: str
    name: str


class Autoscalers:
    """Autoscalers by the workloads that they scale."""

    def __init__(self) -> None:
        self._scaling: dict[Workload, set[tuple[str, str]]] = {}

    def put(self, change: cluster.Change[Any]) -> set[Workload]:
        """Take over a change; returns the workloads that have now, or had, this autoscaler."""
        who = (change.object.resource.plural, change.object.metadata.name)
        before = _workloads(change.old) if change.old is not None else set()
        after = _workloads(change.new) if change.new is not None else set()
        for workload in before:
            rest = self._scaling.get(workload, set())
            rest.discard(who)
            if not rest:
                self._scaling.pop(workload, None)
        for workload in after:
            self._scaling.setdefault(workload, set()).add(who)
        return before ^ after

    def scale(self, workload: Workload) -> bool:
        """Whether an autoscaler decides about the replicas of the workload."""
        return workload in self._scaling


def _workloads(autoscaler: Autoscaler) -> set[Workload]:
    namespace = autoscaler.metadata.namespace
    return {Workload(namespace, each.kind, each.name) for each in autoscaler.targets()}
