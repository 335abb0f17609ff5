"""The official client's SharedInformer, through a cut line and an expired watch."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import kubernetes
import pytest
from kubernetes.informer import ADDED, DELETED, MODIFIED, SharedInformer
from lightkube import Client, KubeConfig
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap

# The client leaves connections that were cut to the garbage collector, and says so by a warning.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Follower:
    """An informer of ConfigMaps, with a journal of what it told."""

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        self.api = kubernetes.config.new_client_from_config(kubeconfig)
        self.core = core = kubernetes.client.CoreV1Api(self.api)
        self.informer = SharedInformer(
            core.list_namespaced_config_map, namespace=namespace, label_selector="suite=informer"
        )
        self.told: list[tuple[str, str]] = []
        for type_ in (ADDED, MODIFIED, DELETED):
            self.informer.add_event_handler(
                type_, lambda obj, t=type_: self.told.append((t, obj.metadata.name))
            )

    @property
    def state(self) -> dict[str, Any]:
        return {obj.metadata.name: obj.data for obj in self.informer.cache.list()}


class Writer:
    """Changes ConfigMaps over a connection of its own, which nobody cuts."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace

    def create(self, name: str, **data: str) -> None:
        meta = ObjectMeta(name=name, namespace=self._namespace, labels={"suite": "informer"})
        self._client.create(ConfigMap(metadata=meta, data=data))

    def change(self, name: str, **data: str) -> None:
        self._client.patch(ConfigMap, name, {"data": data}, namespace=self._namespace)

    def delete(self, name: str) -> None:
        self._client.delete(ConfigMap, name, namespace=self._namespace)


@pytest.fixture
def follow(caplog: pytest.LogCaptureFixture) -> Iterator[Any]:
    """Starts followers. Ask for it first, so that it ends last: an idle informer stops when its line does."""
    started: list[Follower] = []

    def start(kubeconfig: Any, namespace: str) -> Follower:
        started.append(Follower(str(kubeconfig), namespace))
        started[-1].informer.start()
        return started[-1]

    yield start
    while started:
        follower = started.pop()
        follower.informer.stop()
        follower.api.close()
    del follower
    for when in ("setup", "call", "teardown"):
        for record in caplog.get_records(when):
            record.exc_info = None  # its frames refer to connections that were cut
    gc.collect()  # now, as those warnings fail any other test


def test_a_cut_line_loses_nothing(
    follow: Any, line: Any, kubeconfig: Any, client: Any, namespace: str, eventually: Any
) -> None:
    """What was created, changed and deleted during the cut is told after it, and the caches are equal."""
    writer = Writer(client, namespace)
    for name in ("a", "b", "c"):
        writer.create(name, n="1")
    follower = follow(kubeconfig, namespace)
    eventually(lambda: set(follower.state) == {"a", "b", "c"})
    line.cut()
    writer.delete("a")
    writer.change("b", n="2")
    writer.create("d", n="1")
    line.mend()
    eventually(lambda: follower.state == {"b": {"n": "2"}, "c": {"n": "1"}, "d": {"n": "1"}})
    assert (DELETED, "a") in follower.told
    writer.create("e", n="1")
    eventually(lambda: "e" in follower.state)


@pytest.mark.embedded
def test_an_expired_watch_is_listed_again(
    follow: Any, restartable: Any, line_to: Any, is_expired: Any, eventually: Any
) -> None:
    """What it has not seen is lost to watches when the line is back; it finds what changed and is gone."""
    line, kubeconfig = line_to(restartable.kubeconfig)
    follower = follow(kubeconfig, "default")
    with Client(config=KubeConfig.from_file(restartable.kubeconfig), trust_env=False) as client:
        writer = Writer(client, "default")
        for name in ("a", "b"):
            writer.create(name, n="1")
        eventually(lambda: set(follower.state) == {"a", "b"})
        seen = str(follower.core.list_namespaced_config_map("default").metadata.resource_version)
        line.cut()
        writer.delete("a")
        writer.change("b", n="2")
        writer.create("c", n="1")
    restartable.stop()
    restartable.start()
    assert is_expired(restartable.kubeconfig, "/api/v1/namespaces/default/configmaps", seen)
    line.mend()
    eventually(lambda: follower.state == {"b": {"n": "2"}, "c": {"n": "1"}})
    assert (DELETED, "a") in follower.told
    with Client(config=KubeConfig.from_file(restartable.kubeconfig), trust_env=False) as client:
        Writer(client, "default").create("d", n="1")
    eventually(lambda: "d" in follower.state)
