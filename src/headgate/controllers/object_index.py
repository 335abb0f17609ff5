"""The objects that statuses are made from, and which statuses a change of one of them touches.

A change of one Pod among thousands must not cost a look at all of them: Pods are filed under each of their
labels, and a ModelServer under that label of its selector that it shares with the fewest others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from headgate import api, routing

Observed = api.ModelRoute | api.ModelServer
_Label = tuple[str, str, str]
"""Namespace, key, value."""
_Under = TypeVar("_Under", api.ObjectKey, _Label, str)
_MAX_RIVALS = 64
"""Routes for one name that are looked at for each other: a thousand of them must not cost a million looks."""


class Subject(NamedTuple):
    """An object whose status may have to be written anew."""

    kind: type[api.ModelRoute] | type[api.ModelServer]
    key: api.ObjectKey

    def __str__(self) -> str:
        return f"{self.kind.resource.kind} {self.key}"


class ObjectIndex:
    """Takes changes in any order; its answers depend only on the objects that it was last given."""

    def __init__(self) -> None:
        self._routes: dict[api.ObjectKey, api.ModelRoute] = {}
        self._servers: dict[api.ObjectKey, api.ModelServer] = {}
        self._pods: dict[api.ObjectKey, api.Pod] = {}
        self._secrets: dict[api.ObjectKey, api.Secret] = {}
        self._routes_named: defaultdict[str, set[api.ObjectKey]] = defaultdict(set)
        self._routes_to: defaultdict[api.ObjectKey, set[api.ObjectKey]] = defaultdict(set)
        self._pods_with: defaultdict[_Label, set[api.ObjectKey]] = defaultdict(set)
        self._servers_under: defaultdict[_Label, set[api.ObjectKey]] = defaultdict(set)
        self._servers_verified_by: defaultdict[api.ObjectKey, set[api.ObjectKey]] = defaultdict(set)
        self._label_of: dict[api.ObjectKey, _Label] = {}
        self._compared = 0

    # What there is

    def get(self, subject: Subject) -> Observed | None:
        objects = self._routes if subject.kind is api.ModelRoute else self._servers
        return objects.get(subject.key)

    def servers_of(self, route: api.ModelRoute) -> list[api.ModelServer]:
        """The ModelServers that the route names and that exist."""
        return [self._servers[key] for key in _named(route) if key in self._servers]

    def rivals_of(self, route: api.ModelRoute) -> list[api.ModelRoute]:
        """Other routes for a name of this one that may get its requests: the foremost of them.

        A model name goes before adapters, and then what is older.
        """
        adapters = set(route.spec.lora_adapters)
        keys = set().union(*(self._routes_named.get(name, ()) for name in _names(route)))
        rivals = [self._routes[key] for key in keys - {route.metadata.key}]
        rivals.sort(key=lambda other: (other.spec.model_name not in adapters, other.metadata.age_order))
        return rivals[:_MAX_RIVALS]

    def pods_of(self, server: api.ModelServer) -> list[api.Pod]:
        """The Pods that the server selects."""
        labels = list(_selector(server))
        if not labels:
            return []
        rarest = min((self._pods_with.get(label, set()) for label in labels), key=len)
        self._compared += len(rarest)
        return [self._pods[key] for key in rarest if _selects(server, self._pods[key])]

    def secrets_named_by(self, obj: Observed) -> set[api.ObjectKey]:
        """The Secrets by which the endpoints of a server, or of those that a route names, are verified."""
        servers = [obj] if isinstance(obj, api.ModelServer) else self.servers_of(obj)
        return {key for server in servers if (key := routing.authorities_of(server)) is not None}

    def secrets_of(self, obj: Observed) -> list[api.Secret]:
        """The same, as far as they exist."""
        return [self._secrets[key] for key in self.secrets_named_by(obj) if key in self._secrets]

    def named_secrets(self) -> set[api.ObjectKey]:
        """All that any server names, whether they exist or not."""
        return set(self._servers_verified_by)

    def statistics(self) -> dict[str, int]:
        """`compared` counts how often a selector was held against a Pod."""
        return {
            "routes": len(self._routes),
            "servers": len(self._servers),
            "pods": len(self._pods),
            "compared": self._compared,
        }

    # What changes: each returns the subjects that the change touches; None is a deletion

    def set_route(self, key: api.ObjectKey, route: api.ModelRoute | None) -> set[Subject]:
        old = self._routes.pop(key, None)
        touched = {key}
        if old is not None:
            for server in _named(old):
                _discard(self._routes_to, server, key)
            for name in _names(old):
                touched |= self._routes_named[name]
                _discard(self._routes_named, name, key)
        if route is not None:
            self._routes[key] = route
            for server in _named(route):
                self._routes_to[server].add(key)
            for name in _names(route):
                self._routes_named[name].add(key)
                touched |= self._routes_named[name]
            if old is not None and old.spec == route.spec:
                touched = {key}  # only its status was written, which is nobody else's business
        return {Subject(api.ModelRoute, each) for each in touched if each in self._routes}

    def set_server(self, key: api.ObjectKey, server: api.ModelServer | None) -> set[Subject]:
        old = self._servers.pop(key, None)
        if key in self._label_of:
            _discard(self._servers_under, self._label_of.pop(key), key)
        if old is not None and (secret := routing.authorities_of(old)) is not None:
            _discard(self._servers_verified_by, secret, key)
        if server is not None:
            self._servers[key] = server
            self._file(key, server)
        if old is not None and server is not None and _same_selection(old, server):
            return {Subject(api.ModelServer, key)}
        return self._with_routes(key)

    def set_secret(self, key: api.ObjectKey, secret: api.Secret | None) -> set[Subject]:
        self._secrets.pop(key, None)
        if secret is not None:
            self._secrets[key] = secret
        servers = self._servers_verified_by.get(key, ())
        return {subject for server in servers for subject in self._with_routes(server)}

    def set_pod(self, key: api.ObjectKey, pod: api.Pod | None) -> set[Subject]:
        old = self._pods.pop(key, None)
        if pod is not None:
            self._pods[key] = pod
        if old is not None and pod is not None and _facts(old) == _facts(pod):
            return set()
        selecting: set[api.ObjectKey] = set()
        if old is not None:
            selecting.update(self._selecting(old))
            for label in _labels(key.namespace, old.metadata.labels):
                _discard(self._pods_with, label, key)
        if pod is not None:
            selecting.update(self._selecting(pod))
            for label in _labels(key.namespace, pod.metadata.labels):
                self._pods_with[label].add(key)
        return {subject for server in selecting for subject in self._with_routes(server)}

    def validate(self) -> None:
        """Every index says what the objects say."""
        assert {(server, key) for server, keys in self._routes_to.items() for key in keys} == {
            (server, key) for key, route in self._routes.items() for server in _named(route)
        }
        assert {(name, key) for name, keys in self._routes_named.items() for key in keys} == {
            (name, key) for key, route in self._routes.items() for name in _names(route)
        }
        assert {(label, key) for label, keys in self._pods_with.items() for key in keys} == {
            (label, key)
            for key, pod in self._pods.items()
            for label in _labels(key.namespace, pod.metadata.labels)
        }
        assert {key: label for label, keys in self._servers_under.items() for key in keys} == self._label_of
        assert {(secret, key) for secret, keys in self._servers_verified_by.items() for key in keys} == {
            (secret, key)
            for key, server in self._servers.items()
            if (secret := routing.authorities_of(server)) is not None
        }
        assert self._label_of.keys() == {
            key for key, server in self._servers.items() if any(_selector(server))
        }

    # Filing and finding

    def _file(self, key: api.ObjectKey, server: api.ModelServer) -> None:
        labels = list(_selector(server))
        if labels:
            label = min(labels, key=lambda each: len(self._servers_under.get(each, ())))
            self._servers_under[label].add(key)
            self._label_of[key] = label
        if (secret := routing.authorities_of(server)) is not None:
            self._servers_verified_by[secret].add(key)

    def _selecting(self, pod: api.Pod) -> Iterator[api.ObjectKey]:
        """The ModelServers that select the Pod: each is filed under one label, so it comes once."""
        for label in _labels(pod.metadata.namespace, pod.metadata.labels):
            for key in self._servers_under.get(label, ()):
                self._compared += 1
                if _selects(self._servers[key], pod):
                    yield key

    def _with_routes(self, server: api.ObjectKey) -> set[Subject]:
        routes = {Subject(api.ModelRoute, key) for key in self._routes_to.get(server, ())}
        return routes | {Subject(api.ModelServer, server)}


def _discard(index: dict[_Under, set[api.ObjectKey]], under: _Under, key: api.ObjectKey) -> None:
    """Takes the key out, and the entry as well when it was the last: labels come and go with rollouts."""
    index[under].discard(key)
    if not index[under]:
        del index[under]


def _labels(namespace: str, labels: dict[str, str]) -> Iterator[_Label]:
    return ((namespace, key, value) for key, value in labels.items())


def _selector(server: api.ModelServer) -> Iterator[_Label]:
    return _labels(server.metadata.namespace, server.spec.workload_selector.match_labels)


def _selects(server: api.ModelServer, pod: api.Pod) -> bool:
    """For a server and a Pod of one namespace; asked only where the selector is not empty."""
    return server.spec.workload_selector.match_labels.items() <= pod.metadata.labels.items()


def _same_selection(one: api.ModelServer, other: api.ModelServer) -> bool:
    """Whether routes see no difference between the two, e.g. since only the status was written."""
    return _decisive(one) == _decisive(other)


def _decisive(server: api.ModelServer) -> tuple[object, ...]:
    """What of a server decides whether it has endpoints."""
    spec = server.spec
    return spec.workload_selector.match_labels, spec.workload_port, server.metadata.annotations


def _names(route: api.ModelRoute) -> set[str]:
    """The models and adapters that the route is for."""
    return {name for name in (route.spec.model_name, *route.spec.lora_adapters) if name}


def _named(route: api.ModelRoute) -> set[api.ObjectKey]:
    return {
        api.ObjectKey(route.metadata.namespace, target.model_server_name)
        for rule in route.spec.rules
        for target in rule.target_models
    }


def _facts(pod: api.Pod) -> tuple[object, ...]:
    """All of a Pod that shows in a status; its node also reports much that does not."""
    status = pod.status
    return pod.metadata.labels, pod.metadata.deletion_timestamp, pod.ready, status.phase, status.pod_ip
