"""The objects that statuses depend on, and the statuses affected by a change of one of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping

from headgate import api
from headgate.controllers import relations
from headgate.controllers.relations import POOLS, InferencePool, Observed, Pool, Subject
from headgate.routing.route_table import Ordered
from headgate.routing.selections import Selections, Under, discard

_MAX_RIVALS = 64
"""Objects of a kind with one name that are compared: a thousand must not need a million comparisons."""


class ObjectIndex:
    """Accepts changes in any order; results depend only on the current objects."""

    def __init__(self) -> None:
        self._objects: dict[Subject, Observed] = {}
        self._named: defaultdict[str, set[Subject]] = defaultdict(set)
        """Objects by the names of their models and adapters."""
        self._ordered: dict[str, dict[Hashable, Ordered[Subject]]] = {}
        """The same, by precedence, for each kind and role or pool."""
        self._users: defaultdict[Subject, set[Subject]] = defaultdict(set)
        """Objects that name a pool, which need not exist."""
        self._selections: Selections[Subject] = Selections(_facts)
        self._secrets: dict[api.ObjectKey, api.Secret] = {}
        self._verified_by: defaultdict[api.ObjectKey, set[Subject]] = defaultdict(set)
        self._services: dict[api.ObjectKey, api.Service] = {}
        self._picked_by: defaultdict[api.ObjectKey, set[Subject]] = defaultdict(set)
        self._counts: Counter[type[Observed]] = Counter()

    # Queries

    def get(self, subject: Subject) -> Observed | None:
        return self._objects.get(subject)

    def servers_of(self, route: api.ModelRoute) -> list[api.ModelServer]:
        """The existing ModelServers that the route names."""
        found = (self._objects.get(pool) for pool in relations.pools(route))
        return [server for server in found if isinstance(server, api.ModelServer)]

    def pools_for(
        self, obj: api.InferenceModel | api.InferenceObjective | api.InferenceModelRewrite
    ) -> list[InferencePool]:
        """The InferencePool that it names, in either version."""
        named = {twin for pool in relations.pools(obj) for twin in _versions(pool)}
        return [pool for each in named if isinstance(pool := self._objects.get(each), POOLS)]

    def rivals_of(self, obj: Observed) -> list[Observed]:
        """Other objects that may get requests for its names: the first of each kind by precedence."""
        found: set[Subject] = set()
        for name in relations.names(obj):
            for ordered in self._ordered.get(name, {}).values():
                found.update(ordered.foremost(_MAX_RIVALS + 1))  # one of them may be the object itself
        found.discard(relations.subject(obj))
        by_kind: defaultdict[type[Observed], list[Observed]] = defaultdict(list)
        for rival in found:
            by_kind[rival.kind].append(self._objects[rival])
        for rivals in by_kind.values():
            rivals.sort(key=lambda rival: _precedence(rival, obj))
        return [rival for rivals in by_kind.values() for rival in rivals[:_MAX_RIVALS]]

    def models_of(self, pool: InferencePool) -> list[api.InferenceModel]:
        """The InferenceModels that name the pool and have a model, oldest first."""
        users = (self._objects[user] for user in self._users.get(relations.subject(pool), ()))
        models = [user for user in users if isinstance(user, api.InferenceModel) and user.spec.model_name]
        return sorted(models, key=lambda model: model.metadata.age_order)

    def pools(self) -> list[Subject]:
        """All InferencePools."""
        return [each for each in self._objects if each.kind in POOLS]

    def pods_of(self, pool: Pool) -> list[api.Pod]:
        """The Pods that the pool selects."""
        return self._selections.pods(relations.subject(pool))

    def others_selecting(self, pool: InferencePool, pod: api.Pod) -> list[Subject]:
        """Other pools that select a Pod of this one, except its other version."""
        same = _versions(relations.subject(pool))
        return sorted((each for each in self._selections.selecting(pod) if each not in same), key=str)

    def secrets_named_by(self, obj: Observed) -> set[api.ObjectKey]:
        """The Secrets that verify the endpoints of a server, or of those that a route names."""
        named = self.servers_of(obj) if isinstance(obj, api.ModelRoute) else [obj]
        return {key for each in named if (key := relations.authorities(each)) is not None}

    def secrets_of(self, obj: Observed) -> list[api.Secret]:
        """The same, as far as they exist."""
        return [self._secrets[key] for key in self.secrets_named_by(obj) if key in self._secrets]

    def named_secrets(self) -> set[api.ObjectKey]:
        """All Secrets that any server names, existing or not."""
        return set(self._verified_by)

    def known_secrets(self) -> set[api.ObjectKey]:
        return set(self._secrets)

    def known_services(self) -> set[api.ObjectKey]:
        return set(self._services)

    def picker_of(self, pool: InferencePool) -> api.Service | None:
        """The Service that the pool names as its picker, if it exists."""
        key = relations.picker(pool)
        return self._services.get(key) if key is not None else None

    def named_services(self) -> set[api.ObjectKey]:
        """All Services that any pool names as its picker, existing or not."""
        return set(self._picked_by)

    def statistics(self) -> dict[str, int]:
        """`compared` counts comparisons of a selector with a Pod."""
        return {
            "routes": self._counts[api.ModelRoute],
            "servers": self._counts[api.ModelServer],
            "inference_pools": sum(self._counts[kind] for kind in POOLS),
            "inference_models": self._counts[api.InferenceModel],
            "inference_objectives": self._counts[api.InferenceObjective],
            "inference_model_rewrites": self._counts[api.InferenceModelRewrite],
            "pods": len(self._selections),
            "compared": self._selections.compared,
        }

    # Changes: each returns the affected subjects; None is a deletion

    def put(self, subject: Subject, obj: Observed | None) -> set[Subject]:
        old = self._objects.get(subject)
        if old is not None and obj is not None and relations.decisive(old) == relations.decisive(obj):
            self._objects[subject] = obj
            return {subject}  # only its status was written, which affects no other object
        touched = {subject}
        if relations.rivalry(old) != relations.rivalry(obj):
            touched |= self._neighbours(old) | self._neighbours(obj)
        is_moved = old is None or obj is None or relations.serving(old) != relations.serving(obj)
        if is_moved:
            touched |= self._using(subject, is_other=old is None or obj is None)
        self._take_out(subject, old)
        self._file(subject, obj)
        if is_moved:
            touched |= self._sharing(subject)
        return {each for each in touched if each in self._objects}

    def put_pod(self, key: api.ObjectKey, pod: api.Pod | None) -> set[Subject]:
        return self._with_routes(self._selections.put(key, pod))

    def put_secret(self, key: api.ObjectKey, secret: api.Secret | None) -> set[Subject]:
        self._secrets.pop(key, None)
        if secret is not None:
            self._secrets[key] = secret
        return self._with_routes(self._verified_by.get(key, ()))

    def put_service(self, key: api.ObjectKey, service: api.Service | None) -> set[Subject]:
        self._services.pop(key, None)
        if service is not None:
            self._services[key] = service
        return set(self._picked_by.get(key, ()))

    def validate(self) -> None:
        """Check that every index agrees with the objects."""
        objects = self._objects.items()
        assert _pairs(self._named) == {(name, each) for each, obj in objects for name in relations.names(obj)}
        assert self._ordered.keys() == self._named.keys()
        assert {
            (name, role, each)
            for name, by_role in self._ordered.items()
            for role, ordered in by_role.items()
            for each in ordered.all()
        } == {
            (name, role, each)
            for each, obj in objects
            for name in relations.names(obj)
            for role in relations.roles(obj, name)
        }
        assert _pairs(self._users) == {(pool, each) for each, obj in objects for pool in relations.pools(obj)}
        assert _pairs(self._verified_by) == {
            (key, each) for each, obj in objects if (key := relations.authorities(obj)) is not None
        }
        assert _pairs(self._picked_by) == {
            (key, each) for each, obj in objects if (key := relations.picker(obj)) is not None
        }
        assert +self._counts == Counter(each.kind for each in self._objects)
        self._selections.validate()

    # Internal indexing

    def _file(self, subject: Subject, obj: Observed | None) -> None:
        if obj is None:
            return
        self._objects[subject] = obj
        self._counts[subject.kind] += 1
        for name in relations.names(obj):
            self._named[name].add(subject)
            by_role = self._ordered.setdefault(name, {})
            for role in relations.roles(obj, name):
                by_role.setdefault(role, Ordered()).put(relations.age(obj), subject)
        for pool in relations.pools(obj):
            self._users[pool].add(subject)
        self._selections.select(subject, subject.key.namespace, relations.selector(obj))
        if (secret := relations.authorities(obj)) is not None:
            self._verified_by[secret].add(subject)
        if (service := relations.picker(obj)) is not None:
            self._picked_by[service].add(subject)

    def _take_out(self, subject: Subject, obj: Observed | None) -> None:
        if obj is None:
            return
        del self._objects[subject]
        self._counts[subject.kind] -= 1
        for name in relations.names(obj):
            discard(self._named, name, subject)
            by_role = self._ordered[name]
            for role in relations.roles(obj, name):
                by_role[role].take_out(relations.age(obj))
                if not len(by_role[role]):
                    del by_role[role]
            if not by_role:
                del self._ordered[name]
        for pool in relations.pools(obj):
            discard(self._users, pool, subject)
        self._selections.select(subject, subject.key.namespace, {})
        if (secret := relations.authorities(obj)) is not None:
            discard(self._verified_by, secret, subject)
        if (service := relations.picker(obj)) is not None:
            discard(self._picked_by, service, subject)

    def _neighbours(self, obj: Observed | None) -> set[Subject]:
        """Objects with the same names, and the pools that report the models leading to them."""
        if obj is None:
            return set()
        rivals = set[Subject]().union(*(self._named.get(name, ()) for name in relations.names(obj)))
        if not isinstance(obj, api.InferenceModel | api.ModelRoute):
            return rivals
        models = [self._objects[each] for each in rivals if each.kind is api.InferenceModel]
        own = relations.pools(obj) if isinstance(obj, api.InferenceModel) else set()
        return rivals.union(own, *map(relations.pools, models))

    def _using(self, pool: Subject, *, is_other: bool) -> set[Subject]:
        """Objects affected by a pool's endpoints, including those that share Pods with it; `is_other` if it
        was added or removed, which affects all objects that name it, and the rivals of InferenceModels that
        do.
        """
        users = self._users.get(pool, set())
        if is_other:
            users = set[Subject]().union(*(self._users.get(each, ()) for each in _versions(pool)))
            models = [self._objects[user] for user in users if user.kind is api.InferenceModel]
            return self._sharing(pool).union(users, *map(self._neighbours, models))
        return self._sharing(pool) | {user for user in users if user.kind is api.ModelRoute}

    def _sharing(self, pool: Subject) -> set[Subject]:
        """InferencePools that select a Pod of this pool, which they report."""
        if not any(self._counts[kind] for kind in POOLS):
            return set()
        pods = self._selections.pods(pool)
        return {each for pod in pods for each in self._selections.selecting(pod) if each.kind in POOLS}

    def _with_routes(self, pools: Iterable[Subject]) -> set[Subject]:
        """The pools, and the ModelRoutes to them, which report the number of their endpoints."""
        found = set(pools)
        users = (user for pool in tuple(found) for user in self._users.get(pool, ()))
        return found | {user for user in users if user.kind is api.ModelRoute}


def _versions(pool: Subject) -> list[Subject]:
    """The pool, and the pool of its name in the other version, if there are two versions."""
    return [Subject(kind, pool.key) for kind in POOLS] if pool.kind in POOLS else [pool]


def _precedence(rival: Observed, obj: Observed) -> tuple[bool, relations.Age]:
    """Precedence among objects of a kind: first ModelRoutes with an adapter of this one as their model, or
    InferenceModels of the same pool; then objects that are not being deleted; then older ones.
    """
    is_later = False
    if isinstance(rival, api.ModelRoute):
        is_later = not isinstance(obj, api.ModelRoute) or rival.spec.model_name not in obj.spec.lora_adapters
    elif isinstance(rival, api.InferenceModel):
        is_later = relations.pools(rival) != relations.pools(obj)
    return is_later, relations.age(rival)


def _pairs(index: Mapping[Under, set[Subject]]) -> set[tuple[Under, Subject]]:
    return {(under, each) for under, found in index.items() for each in found}


def _facts(pod: api.Pod) -> tuple[object, ...]:
    """The part of a Pod that affects statuses; its node also reports much that does not."""
    status, metadata = pod.status, pod.metadata
    return metadata.labels, metadata.deletion_timestamp, pod.ready, status.phase, status.pod_ip
