"""Which Pods a pool selects, and which pools select a Pod.

A change of one Pod among thousands must not scan all of them: Pods are indexed by each of their labels, and a
pool by the label of its selector that the fewest others share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Generic, TypeVar

from headgate import api

Label = tuple[str, str, str]
"""Namespace, key, value."""
Under = TypeVar("Under", bound=Hashable)
Filed = TypeVar("Filed")
PoolKey = TypeVar("PoolKey", bound=Hashable)


class Selections(Generic[PoolKey]):
    """Takes Pods and selectors in any order. `facts` returns the relevant part of a Pod: other changes affect
    no pool."""

    def __init__(self, facts: Callable[[api.Pod], object]) -> None:
        self._facts = facts
        self._pods: dict[api.ObjectKey, api.Pod] = {}
        self._pods_with: defaultdict[Label, set[api.ObjectKey]] = defaultdict(set)
        self._selectors: dict[PoolKey, Mapping[str, str]] = {}
        self._namespaces: dict[PoolKey, str] = {}
        self._under: defaultdict[Label, set[PoolKey]] = defaultdict(set)
        self._label_of: dict[PoolKey, Label] = {}
        self.compared = 0
        """Comparisons of a selector with a Pod so far."""

    def __len__(self) -> int:
        """The number of Pods."""
        return len(self._pods)

    def select(self, pool: PoolKey, namespace: str, labels: Mapping[str, str]) -> None:
        """Set the labels that a pool selects by; without labels, it selects nothing."""
        if pool in self._selectors:
            del self._selectors[pool], self._namespaces[pool]
            discard(self._under, self._label_of.pop(pool), pool)
        if labels:
            under = list(_labels(namespace, labels))
            label = min(under, key=lambda each: len(self._under.get(each, ())))
            self._selectors[pool] = labels
            self._namespaces[pool] = namespace
            self._under[label].add(pool)
            self._label_of[pool] = label

    def selects(self, pool: PoolKey) -> bool:
        """Whether the pool selects by any labels."""
        return pool in self._selectors

    def put(self, key: api.ObjectKey, pod: api.Pod | None) -> set[PoolKey]:
        """Update a Pod, or remove it with None; returns the pools that it affects."""
        old = self._pods.pop(key, None)
        if pod is not None:
            self._pods[key] = pod
        if old is not None and pod is not None and self._facts(old) == self._facts(pod):
            return set()
        touched: set[PoolKey] = set()
        if old is not None:
            touched.update(self.selecting(old))
            for label in _labels(key.namespace, old.metadata.labels):
                discard(self._pods_with, label, key)
        if pod is not None:
            touched.update(self.selecting(pod))
            for label in _labels(key.namespace, pod.metadata.labels):
                self._pods_with[label].add(key)
        return touched

    def pods(self, pool: PoolKey) -> list[api.Pod]:
        """The Pods that the pool selects."""
        labels = self._selectors.get(pool)
        if labels is None:
            return []
        filed = (self._pods_with.get(label, set()) for label in _labels(self._namespaces[pool], labels))
        rarest = min(filed, key=len)
        self.compared += len(rarest)
        return [self._pods[key] for key in rarest if _has(labels, self._pods[key])]

    def selecting(self, pod: api.Pod) -> Iterator[PoolKey]:
        """The pools that select the Pod, each once, because it is indexed under one label."""
        for label in _labels(pod.metadata.namespace, pod.metadata.labels):
            for pool in self._under.get(label, ()):
                self.compared += 1
                if _has(self._selectors[pool], pod):
                    yield pool

    def validate(self) -> None:
        """Check that every index agrees with the objects; for tests."""
        assert {(label, key) for label, keys in self._pods_with.items() for key in keys} == {
            (label, key)
            for key, pod in self._pods.items()
            for label in _labels(key.namespace, pod.metadata.labels)
        }
        assert {pool: label for label, pools in self._under.items() for pool in pools} == self._label_of
        assert self._label_of.keys() == self._selectors.keys()


def discard(index: dict[Under, set[Filed]], under: Under, what: Filed) -> None:
    """Remove it, and the entry as well if it was the last: labels come and go with rollouts."""
    index[under].discard(what)
    if not index[under]:
        del index[under]


def _labels(namespace: str, labels: Mapping[str, str]) -> Iterator[Label]:
    return ((namespace, key, value) for key, value in labels.items())


def _has(labels: Mapping[str, str], pod: api.Pod) -> bool:
    """Whether a Pod has these labels; pool and Pod must be of the same namespace."""
    return labels.items() <= pod.metadata.labels.items()
