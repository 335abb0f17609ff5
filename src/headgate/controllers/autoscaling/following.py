"""Follows bindings, policies, and what they scale; says which bindings a change concerns.

Everything is filed under what it is looked up by, so that a pass lists nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, TypeVar

from headgate import api, cluster
from headgate.api.reference_grants import ReferenceGrant
from headgate.controllers import grants
from headgate.controllers.autoscaling import pools, targets, workloads
from headgate.controllers.autoscaling.claims import Claimant, Claims
from headgate.controllers.autoscaling.pools import Pools
from headgate.controllers.autoscaling.targets import MODEL, Named, Refusal, Target
from headgate.controllers.autoscaling.workloads import (
    Horizontal,
    Scalable,
    ScalableDeployment,
    ScalableLeaderWorkerSet,
    ScalableStatefulSet,
    Variant,
    Workload,
)
from headgate.controllers.grants import Grants
from headgate.controllers.model.observed import owner_of
from headgate.routing.selections import Selections

BINDING, VARIANT = api.AutoscalingPolicyBinding.resource.kind, Variant.resource.kind
_SCALABLE = (ScalableDeployment, ScalableStatefulSet, ScalableLeaderWorkerSet)
Key = TypeVar("Key", bound=Hashable)


class Followed:
    """What exists, as the informers show it.

    A target is known to the selections as a tuple: the key of the binding, and the number of the target.
    """

    def __init__(
        self,
        touched: Callable[[api.ObjectKey], None],
        judged: Callable[[api.ObjectKey], None],
        namespaces: Sequence[str] = (),
    ) -> None:
        """`touched` is called with bindings that have to be looked at, `judged` with policies. `namespaces`:
        those to follow; all if there are none."""
        self._touched, self._judged = touched, judged
        self._namespaces = tuple(namespaces)
        self.variant_touched: Callable[[api.ObjectKey], object] = lambda key: None
        """Called with keys that VariantAutoscalings may have when the workload of this name changes, or when
        others who want to decide for it come or go."""
        self._bindings: dict[api.ObjectKey, api.AutoscalingPolicyBinding] = {}
        self._policies: dict[api.ObjectKey, api.AutoscalingPolicy] = {}
        self._by_policy: defaultdict[api.ObjectKey, set[api.ObjectKey]] = defaultdict(set)
        self._by_target: defaultdict[Workload, set[api.ObjectKey]] = defaultdict(set)
        """Bindings by the workloads or Models that they name."""
        self._workloads = _Workloads()
        self._pods: Selections[Hashable] = Selections(lambda _: None)
        """Pods, by targets of bindings and by pools."""
        self._pools = Pools(self._pods)
        self._claims = Claims()
        self._grants: list[cluster.Informer[ReferenceGrant]] = []

    # Reading

    def binding(self, key: api.ObjectKey) -> api.AutoscalingPolicyBinding | None:
        return self._bindings.get(key)

    def bindings(self) -> Collection[api.AutoscalingPolicyBinding]:
        return self._bindings.values()

    def policy(self, key: api.ObjectKey) -> api.AutoscalingPolicy | None:
        return self._policies.get(key)

    def users(self, policy: api.ObjectKey) -> int:
        """The number of bindings that name the policy."""
        return len(self._by_policy.get(policy, ()))

    def targets(self, binding: api.AutoscalingPolicyBinding) -> Sequence[Target] | Refusal:
        named = list(targets.named(binding))
        return targets.resolve(named, self._workloads.get, self._workloads.of_model)

    def grants(self) -> Grants:
        return Grants(
            [grant for informer in self._grants for grant in informer.items()],
            all(informer.is_served for informer in self._grants),
            self._namespaces,
        )

    def rival(self, binding: api.AutoscalingPolicyBinding, workload: Workload) -> Claimant | None:
        """Who decides the replicas of the workload in place of the binding."""
        holder = self._claims.holder(workload)
        return holder if holder is not None and holder.id != _claimant(binding).id else None

    def workload_of_variant(self, key: api.ObjectKey) -> Scalable | None:
        """The workload with the name of a VariantAutoscaling."""
        places = (Workload(key.namespace, each.resource.kind, key.name) for each in _SCALABLE)
        return next((found for each in places if (found := self._workloads.get(each)) is not None), None)

    def claimants(self, workload: Workload) -> list[Claimant]:
        """All who want to decide the replicas of a workload, in order of precedence."""
        return self._claims.on(workload)

    def pods_of_variant(self, workload: Scalable) -> list[api.Pod]:
        """Pods that stand for replicas of a VariantAutoscaling's workload; see `select_for_variant`."""
        pods = self._pods.pods((VARIANT, workload.place))
        return [pod for pod in pods if workload.selector.matches(pod.metadata.labels)]

    def select_for_variant(self, place: Workload, workload: Scalable | None) -> None:
        """Find the Pods of a workload from now on; None: no longer."""
        labels = dict(workload.selector.match_labels or workload.pod_labels) if workload is not None else {}
        self._pods.select((VARIANT, place), place.namespace, labels)

    def pods(self, binding: api.ObjectKey, index: int, target: Target) -> list[api.Pod]:
        """Pods that stand for replicas of a target, which is the one with this index."""
        selector = target.scalable.selector
        return [pod for pod in self._pods.pods((binding, index)) if selector.matches(pod.metadata.labels)]

    @property
    def pools(self) -> Pools:
        return self._pools

    def statistics(self) -> dict[str, int]:
        """Objects by kind."""
        return {
            BINDING: len(self._bindings),
            api.AutoscalingPolicy.resource.kind: len(self._policies),
            "workloads": len(self._workloads),
            "pools": len(self._pools),
            "Pod": len(self._pods),
        }

    # Following

    def informers(self, client: cluster.Client) -> list[cluster.Informer[Any]]:
        """Those of all kinds, subscribed to."""
        found: list[cluster.Informer[Any]] = []

        def follow(kind: type[Any], handler: Callable[[Any], None], **options: Any) -> None:
            for scope in cluster.scopes(self._namespaces):
                informer: cluster.Informer[Any] = cluster.Informer(
                    client, kind, scope, may_be_absent=kind is not api.Pod, **options
                )
                informer.subscribe(handler)
                found.append(informer)
                if kind is ReferenceGrant:
                    self._grants.append(informer)

        for scalable in workloads.KINDS:
            follow(scalable, self._workload_changed, reduced=workloads.reduced)
        for pool in pools.KINDS:
            follow(pool, self._pools.put, reduced=pools.reduced)
        follow(Horizontal, self._horizontal_changed)
        follow(Variant, self._variant_changed)
        follow(ReferenceGrant, self._grant_changed)
        follow(api.Pod, self._pod_changed, reduced=workloads.reduced_pod)
        follow(api.AutoscalingPolicy, self._policy_changed)
        follow(api.AutoscalingPolicyBinding, self._binding_changed)
        return found

    def _policy_changed(self, change: cluster.Change[api.AutoscalingPolicy]) -> None:
        key = change.object.metadata.key
        if change.new is None:
            self._policies.pop(key, None)
        else:
            self._policies[key] = change.new
        if _is_decisive(change):
            self._touch(self._by_policy.get(key, ()))
        self._judged(key)

    def _binding_changed(self, change: cluster.Change[api.AutoscalingPolicyBinding]) -> None:
        key = change.object.metadata.key
        old, new = change.old, change.new
        if old is not None:
            _discard(self._by_policy, _policy_of(old), key)
            for each in targets.named(old):
                _discard(self._by_target, each.workload, key)
        if new is None:
            self._bindings.pop(key, None)
        else:
            self._bindings[key] = new
            self._by_policy[_policy_of(new)].add(key)
            for each in targets.named(new):
                self._by_target[each.workload].add(key)
        for policy in {_policy_of(each) for each in (old, new) if each is not None}:
            self._judged(policy)
        if not _is_decisive(change):
            return  # only its status was written
        self._claim(key)
        self._touched(key)

    def _workload_changed(self, change: cluster.Change[Scalable]) -> None:
        model = self._workloads.put(change)
        concerned = set(self._by_target.get(change.object.place, ()))
        if model is not None:
            concerned |= self._by_target.get(model, set())
        if change.old is None or change.new is None or _facts(change.old) != _facts(change.new):
            for key in concerned:
                self._claim(key)
        if change.old is None or change.new is None or change.old.spec != change.new.spec:
            self._touch(concerned)
        self.variant_touched(change.object.metadata.key)

    def _pod_changed(self, change: cluster.Change[api.Pod]) -> None:
        self._pods.put(change.object.metadata.key, change.new)

    def _grant_changed(self, _: cluster.Change[ReferenceGrant]) -> None:
        for binding in list(self._bindings.values()):
            if any(each.workload.namespace != binding.metadata.namespace for each in targets.named(binding)):
                self._claim(binding.metadata.key)
                self._touched(binding.metadata.key)

    def _horizontal_changed(self, change: cluster.Change[Horizontal]) -> None:
        metadata = change.object.metadata
        claimant = _other(Horizontal.resource.kind, metadata)
        claimed: list[Workload] = []
        if change.new is not None:
            of = change.new.spec.scale_target_ref
            claimant = claimant._replace(is_unstoppable=change.new.is_active)
            claimed = [Workload(metadata.namespace, of.kind, of.name)]
        self._claimed(claimant, claimed)

    def _variant_changed(self, change: cluster.Change[Variant]) -> None:
        metadata = change.object.metadata
        kinds = [each.resource.kind for each in _SCALABLE] if change.new is not None else []
        claimed = [Workload(metadata.namespace, kind, metadata.name) for kind in kinds]
        self._claimed(_other(VARIANT, metadata), claimed)

    def _claim(self, key: api.ObjectKey) -> None:
        """Take over what a binding claims, and which Pods it measures."""
        binding = self._bindings.get(key)
        if binding is None or binding.metadata.deletion_timestamp is not None:
            gone = Claimant(BINDING, key.namespace, key.name)
            self._claimed(gone, ())
            self._select(key, ())
            return
        found = self.targets(binding)
        # A claim without a right would keep those who have one from scaling.
        allowed = not isinstance(found, Refusal) and self._may(binding, [each.named for each in found])
        known = [] if isinstance(found, Refusal) or not allowed else found
        self._select(key, known)
        self._claimed(_claimant(binding), [each.workload for each in known])

    def _may(self, binding: api.AutoscalingPolicyBinding, named: Sequence[Named]) -> bool:
        if all(each.workload.namespace == binding.metadata.namespace for each in named):
            return True
        known = self.grants().found
        return all(reference.is_allowed(known) for _, reference in grants.references(binding))

    def _select(self, key: api.ObjectKey, found: Sequence[Target]) -> None:
        index = 0
        for index, target in enumerate(found, 1):
            labels = targets.pod_labels(target)
            self._pods.select((key, index - 1), target.workload.namespace, labels)
        # A binding may have had more targets before.
        while self._pods.selects((key, index)):
            self._pods.select((key, index), key.namespace, {})
            index += 1

    def _claimed(self, claimant: Claimant, on: Collection[Workload]) -> None:
        for workload in self._claims.put(claimant, on):
            for each in self._claims.on(workload):
                key = api.ObjectKey(each.namespace, each.name)
                if each.kind == VARIANT:
                    self.variant_touched(key)
                elif each.kind == BINDING and each.id != claimant.id:
                    self._touched(key)

    def _touch(self, keys: Collection[api.ObjectKey]) -> None:
        for key in keys:
            self._touched(key)


class _Workloads:
    """Workloads by their places, and by the Models that they belong to."""

    def __init__(self) -> None:
        self._all: dict[Workload, Scalable] = {}
        self._of_model: defaultdict[Workload, set[Workload]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._all)

    def put(self, change: cluster.Change[Scalable]) -> Workload | None:
        """Take over a change; returns the Model that it concerns."""
        place = change.object.place
        model = _model_of(change.object)
        if change.old is not None and (before := _model_of(change.old)) is not None:
            _discard(self._of_model, before, place)
        if change.new is None:
            self._all.pop(place, None)
            return model
        self._all[place] = change.new
        if model is not None:
            self._of_model[model].add(place)
        return model

    def get(self, place: Workload) -> Scalable | None:
        return self._all.get(place)

    def of_model(self, model: Workload) -> Sequence[Scalable]:
        return [self._all[each] for each in self._of_model.get(model, ())]


def _model_of(workload: Scalable) -> Workload | None:
    owner = owner_of(workload.metadata)
    if owner is None or owner.kind != MODEL[1]:
        return None
    return Workload(workload.metadata.namespace, owner.kind, owner.name)


def _facts(workload: Scalable) -> object:
    """What claims and selections depend on."""
    return workload.selector, workload.pod_labels, _model_of(workload), workload.metadata.labels


def _is_decisive(change: cluster.Change[Any]) -> bool:
    """Whether more than the status of the object may have changed."""
    if change.old is None or change.new is None:
        return True
    before, after = change.old.metadata, change.new.metadata
    return bool(
        before.generation != after.generation
        or before.annotations != after.annotations
        or before.deletion_timestamp != after.deletion_timestamp
        or not after.generation
    )


def _policy_of(binding: api.AutoscalingPolicyBinding) -> api.ObjectKey:
    return api.ObjectKey(binding.metadata.namespace, binding.spec.policy_ref.name)


def _claimant(binding: api.AutoscalingPolicyBinding) -> Claimant:
    return _other(BINDING, binding.metadata)


def _other(kind: str, metadata: api.ObjectMeta) -> Claimant:
    return Claimant(kind, metadata.namespace, metadata.name, metadata.creation_timestamp)


def _discard(index: defaultdict[Key, set[Any]], under: Key, what: Hashable) -> None:
    index[under].discard(what)
    if not index[under]:
        del index[under]
