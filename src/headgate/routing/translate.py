"""Translates the objects of all dialects into one Snapshot; runs on every change, never per request.

An object that cannot be translated is left out and becomes a Problem: it never stops the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Set
from typing import NamedTuple, TypeAlias

import msgspec

from headgate import api
from headgate.routing import (
    fallbacks,
    inference_models,
    inference_pools,
    model_rewrites,
    model_routes,
    model_servers,
    phases,
    pool_inputs,
    tls,
)
from headgate.routing.inference_pools import InferencePool
from headgate.routing.pool_inputs import PoolInputs, PoolObject
from headgate.routing.problems import Problem, Reporter
from headgate.routing.route_table import Order, Ordered, ProblemList, RouteTable
from headgate.routing.selections import discard
from headgate.routing.snapshot import EMPTY, MODEL_ROUTE, Pool, Snapshot, Step

UNRESOLVED = frozenset(
    {
        model_routes.MODEL_SERVER_NOT_FOUND,
        inference_models.REF_NOT_FOUND,
        tls.SECRET_NOT_FOUND,
        tls.SECRET_KEY_NOT_FOUND,
        tls.INVALID_CERTIFICATE,
        phases.NO_ROLE,
        phases.NO_GROUP,
        phases.INCOMPLETE_GROUP,
        fallbacks.POOL_NOT_FOUND,
    }
)
"""Reasons of problems that concern a referenced or selected object, not the one that refers to it."""

Source: TypeAlias = (
    api.ModelRoute | PoolObject | api.InferenceModel | api.InferenceObjective | api.InferenceModelRewrite
)
"""The objects that are translated. Pods and Secrets are inputs of pools."""


class InferenceObjects(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of the Gateway API Inference Extension; pools of both versions."""

    pools: Iterable[InferencePool] = ()
    models: Iterable[api.InferenceModel] = ()
    objectives: Iterable[api.InferenceObjective] = ()
    rewrites: Iterable[api.InferenceModelRewrite] = ()


class Translator:
    """Follows the changes of objects: `snapshot` translates those that changed since the last call, and what
    depends on them. A snapshot shares everything else with the one before.

    For one name, ModelRoutes precede InferenceModels, and these the annotations of pools; last come
    InferenceModels whose pool does not exist. Changes may come in any order; the snapshot depends only on the
    objects' present state.
    """

    def __init__(self) -> None:
        self._sources: dict[api.ObjectRef, Source] = {}
        self._users: defaultdict[api.ObjectKey, set[api.ObjectRef]] = defaultdict(set)
        """Objects that reference a pool of this name, of either kind, which need not exist."""
        self._inputs = PoolInputs()
        self._rivals: dict[_Place, Ordered[api.ObjectRef]] = {}
        """The InferenceModels for one name in one pool: the first is served."""
        self._made: dict[api.ObjectRef, _Made] = {}
        self._routes = RouteTable()
        self._problems = ProblemList()
        self._pool_orders: dict[api.ObjectRef, Order] = {}
        self._stale: dict[api.ObjectRef, None] = {}
        """The objects to translate, in the order of their changes."""
        self._snapshot = EMPTY
        self.step = Step(EMPTY, EMPTY, frozenset(), frozenset())
        """From the snapshot before to the last one."""
        self.failed: dict[api.ObjectRef, Exception] = {}
        """Objects whose translation raised an exception, which is our own error: the last snapshot has them
        as they were before, if at all. They are tried again with every snapshot."""
        self.translated = 0
        """Objects translated so far."""

    def put(self, key: api.ObjectRef, source: Source | None) -> None:
        """Update an object; None if it is gone."""
        old = self._sources.pop(key, None)
        if source is not None:
            self._sources[key] = source
        self._touch([key])
        before, after = _named_by(old), _named_by(source)
        for pool in before - after:
            discard(self._users, pool, key)
        for pool in after - before:
            self._users[pool].add(key)
        either = source or old
        if isinstance(either, PoolObject):
            self._inputs.put_pool(key, source if isinstance(source, PoolObject) else None)
            if old is None or source is None:
                self._touch(self._users.get(key.key, ()))
        elif isinstance(either, api.InferenceObjective):
            self._touch(self._inputs.put_objective(_objective(old), _objective(source)))
        elif isinstance(either, api.InferenceModelRewrite):
            self._touch(self._inputs.put_rewrite(_rewrite(old), _rewrite(source)))
        elif isinstance(either, api.InferenceModel):
            self._put_rival(key, _model(old), _model(source))

    def _put_rival(
        self, key: api.ObjectRef, old: api.InferenceModel | None, new: api.InferenceModel | None
    ) -> None:
        """If another model becomes the one that is served, all for the name in the pool are translated
        again."""
        places = {_place(model) for model in (old, new) if model is not None}
        held_before = {place: self._holder(place) for place in places}
        if old is not None:
            self._rivals[_place(old)].take_out(inference_models.precedence(old))
        if new is not None:
            rivals = self._rivals.setdefault(_place(new), Ordered())
            rivals.put(inference_models.precedence(new), key)
        for place, before in held_before.items():
            rivals = self._rivals[place]
            if not len(rivals):
                del self._rivals[place]
            elif rivals.first != before:
                self._touch(rivals.all())

    def _holder(self, place: _Place) -> api.ObjectRef | None:
        rivals = self._rivals.get(place)
        return rivals.first if rivals is not None else None

    def put_pod(self, key: api.ObjectKey, pod: api.Pod | None) -> bool:
        """Returns whether a pool has to be translated again."""
        return self._touch(self._inputs.put_pod(key, pod))

    def put_secret(self, key: api.ObjectKey, secret: api.Secret | None) -> bool:
        """Returns whether a pool has to be translated again."""
        return self._touch(self._inputs.put_secret(key, secret))

    @property
    def named_secrets(self) -> Set[api.ObjectKey]:
        """The Secrets that pools reference, whether or not they exist; no others are needed."""
        return self._inputs.named_secrets

    def _touch(self, keys: Collection[api.ObjectRef]) -> bool:
        self._stale.update(dict.fromkeys(keys))
        return bool(keys)

    def snapshot(self) -> Snapshot:
        """The snapshot of the present objects; the same one as before if nothing changed."""
        if not self._stale:
            return self._snapshot
        self.failed = {}
        changed: dict[api.ObjectRef, Pool | None] = {}
        for key in self._stale:
            try:
                self._translate(key, changed)
            except Exception as error:  # one bad object must not affect the others
                self.failed[key] = error
        self._stale = dict.fromkeys(self.failed)
        before, names = self._snapshot, self._routes.settle()
        self._snapshot = Snapshot(
            models=self._routes.models,
            adapters=self._routes.adapters,
            unknown=self._routes.unknown,
            pools=self._with(changed),
            problems=self._problems.all(),
        )
        self.step = Step(before, self._snapshot, names, frozenset(changed))
        return self._snapshot

    def _translate(self, key: api.ObjectRef, changed: dict[api.ObjectRef, Pool | None]) -> None:
        source = self._sources.get(key)
        if source is None:
            self._made.pop(key, None)
            self._routes.put(key, (), (), goes_first=key.kind == MODEL_ROUTE)
            self._problems.put(key, (), ())
            if key in self._snapshot.pools:
                changed[key] = None
            return
        self.translated += 1
        problems: list[Problem] = []
        reporter = Reporter(key, problems)
        if isinstance(source, api.ModelRoute):
            problems += self._route(source, reporter)
            model_routes.check(source, self._sources.keys(), reporter)
        elif isinstance(source, api.InferenceModel):
            self._model(source, reporter)
        elif isinstance(source, api.InferenceObjective):
            inference_models.check_objective(source, self._sources.keys(), reporter)
        elif isinstance(source, api.InferenceModelRewrite):
            inference_models.check_pool(model_rewrites.pool_of(source), self._sources.keys(), reporter)
        else:
            changed[key] = self._pool(source, reporter)
        self._problems.put(key, _order(key, source), problems)

    def _route(self, source: api.ModelRoute, reporter: Reporter) -> tuple[Problem, ...]:
        """The problems within the object itself. Its route is kept while the object is unchanged."""
        made = self._made.get(reporter.ref)
        if made is None or made.source is not source:
            problems: list[Problem] = []
            route = model_routes.route(source, Reporter(reporter.ref, problems))
            self._routes.put(reporter.ref, source.metadata.age_order, (route,), goes_first=True)
            made = self._made[reporter.ref] = _Made(source, tuple(problems))
        return made.problems

    def _model(self, model: api.InferenceModel, reporter: Reporter) -> None:
        holder = self._holder(_place(model)) if model.spec.model_name else None
        inference_models.check(model, holder or reporter.ref, self._sources.keys(), reporter)
        routes = (inference_models.route(model, reporter),) if holder == reporter.ref else ()
        place = 0 if inference_models.pool_of(model) in self._sources else 2  # pools have 1
        self._routes.put(reporter.ref, (place, *model.metadata.age_order), routes, goes_first=False)

    def _pool(self, source: PoolObject, reporter: Reporter) -> Pool:
        pods, secrets = self._inputs.pods(reporter.ref), self._inputs.secrets
        if isinstance(source, api.ModelServer):
            return model_servers.pool(source, pods, secrets, reporter)
        priorities, rewrites = self._inputs.priorities(reporter.ref), self._inputs.rewrites(reporter.ref)
        pool = inference_pools.pool(source, pods, secrets, priorities, rewrites, reporter)
        made = self._made.get(reporter.ref)
        if made is None or made.source is not source:
            order = (1, *source.metadata.age_order, reporter.ref.kind)
            self._routes.put(reporter.ref, order, tuple(inference_pools.routes(source)), goes_first=False)
            self._made[reporter.ref] = _Made(source, ())
        return pool

    def _with(self, changed: Mapping[api.ObjectRef, Pool | None]) -> Mapping[api.ObjectRef, Pool]:
        """The pools of the last snapshot with these changes; None removes a pool."""
        before = self._snapshot.pools
        if not changed:
            return before
        pools = {key: pool for key, pool in {**before, **changed}.items() if pool is not None}
        orders = {key: _order(key, self._sources[key]) for key in changed if key in pools}
        is_in_order = before.keys() == pools.keys() and all(
            self._pool_orders[key] == order for key, order in orders.items()
        )
        if is_in_order:
            return pools
        self._pool_orders = {
            key: order for key, order in {**self._pool_orders, **orders}.items() if key in pools
        }
        return {key: pools[key] for key in sorted(pools, key=self._pool_orders.__getitem__)}


class _Made(NamedTuple):
    """What was translated from an object, valid as long as it is the same object."""

    source: Source
    problems: tuple[Problem, ...]


_Place: TypeAlias = tuple[api.ObjectRef, str]
"""A pool, and a name in it."""


def _place(model: api.InferenceModel) -> _Place:
    return inference_models.pool_of(model), model.spec.model_name


def _model(source: Source | None) -> api.InferenceModel | None:
    return source if isinstance(source, api.InferenceModel) else None


def _objective(source: Source | None) -> api.InferenceObjective | None:
    return source if isinstance(source, api.InferenceObjective) else None


def _rewrite(source: Source | None) -> api.InferenceModelRewrite | None:
    return source if isinstance(source, api.InferenceModelRewrite) else None


def _named_by(source: Source | None) -> set[api.ObjectKey]:
    """The pools that it references, of either kind."""
    if isinstance(source, api.ModelRoute):
        return {pool.key for pool in model_routes.pools_of(source)}
    if isinstance(source, api.InferenceModel):
        return {pool.key for pool in inference_models.pools_of(source)}
    if isinstance(source, api.InferenceModelRewrite):
        return {model_rewrites.pool_of(source).key}
    return (
        {inference_models.pool_of_objective(source).key}
        if isinstance(source, api.InferenceObjective)
        else set()
    )


def _order(key: api.ObjectRef, source: Source) -> Order:
    """Sort key of an object among all others, for pools and problems."""
    metadata = source.metadata
    if isinstance(source, api.ModelServer):
        return (0, *metadata.key)
    if isinstance(source, api.InferenceObjective | api.InferenceModelRewrite):
        return (1, *metadata.key, key.kind)
    if isinstance(source, api.ModelRoute):
        return (3, *metadata.age_order)
    if isinstance(source, api.InferenceModel):
        return (4, *inference_models.precedence(source))
    return (2, *metadata.age_order, key.kind)


def translate(
    routes: Iterable[api.ModelRoute],
    servers: Iterable[api.ModelServer],
    pods: Iterable[api.Pod],
    secrets: Iterable[api.Secret] = (),
    inference: InferenceObjects = InferenceObjects(),  # noqa: B008 - it is frozen, and empty
) -> Snapshot:
    """Translate all objects, in any order; `secrets` are those that `authorities_of` a pool returns."""
    translator = Translator()
    for server in (*servers, *inference.pools):
        translator.put(pool_inputs.ref_of(server), server)
    for route in routes:
        translator.put(model_routes.ref(route), route)
    for model in inference.models:
        translator.put(inference_models.ref(model), model)
    for objective in inference.objectives:
        translator.put(inference_models.objective_ref(objective), objective)
    for rewrite in inference.rewrites:
        translator.put(model_rewrites.ref(rewrite), rewrite)
    for pod in pods:
        translator.put_pod(pod.metadata.key, pod)
    for secret in secrets:
        translator.put_secret(secret.metadata.key, secret)
    snapshot = translator.snapshot()
    for error in translator.failed.values():
        raise error
    return snapshot
