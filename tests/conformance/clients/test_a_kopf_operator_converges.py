"""A kopf operator in a process of its own: handlers, finalizers, timers, Events; cut off, and expired."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from lightkube import ApiError, Client, KubeConfig
from lightkube.generic_resource import create_global_resource, create_namespaced_resource
from lightkube.resources.core_v1 import Event
from lightkube.types import PatchType

HERE = Path(__file__).parent
GREETED = "conformance.headgate.dev/greeted"
FINALIZER = "conformance.headgate.dev/harbour"
Definition = create_global_resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"
)
Boat = create_namespaced_resource("conformance.headgate.dev", "v1", "Boat", "boats")
ModelServer = create_namespaced_resource("networking.volcano.sh", "v1alpha1", "ModelServer", "modelservers")


class Harbour:
    """Boats and model servers of a namespace, as a user changes and sees them."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace

    def build(self, name: str, cargo: str) -> None:
        self._client.create(
            Boat.from_dict({"metadata": self._meta(name), "spec": {"cargo": cargo}}),
        )

    def load(self, name: str, cargo: str) -> None:
        change = {"spec": {"cargo": cargo}}
        self._client.patch(Boat, name, change, namespace=self._namespace, patch_type=PatchType.MERGE)

    def scrap(self, name: str) -> None:
        self._client.delete(Boat, name, namespace=self._namespace)

    def serve(self, name: str) -> None:
        spec = {
            "inferenceEngine": "vLLM",
            "workloadSelector": {"matchLabels": {"app": "chat"}},
            "workloadPort": {"port": 8000},
        }
        self._client.create(ModelServer.from_dict({"metadata": self._meta(name), "spec": spec}))

    def boat(self, name: str) -> dict[str, Any]:
        """The whole object; empty if there is none."""
        try:
            return self._client.get(Boat, name, namespace=self._namespace).to_dict()
        except ApiError as error:
            assert error.status.code == 404
            return {}

    def status(self, name: str) -> dict[str, Any]:
        return self.boat(name).get("status") or {}

    def greeting(self, name: str) -> str | None:
        annotations = self._client.get(ModelServer, name, namespace=self._namespace).metadata.annotations
        return (annotations or {}).get(GREETED)

    def reasons(self) -> set[str]:
        return {event.reason for event in self._client.list(Event, namespace=self._namespace)}

    def version(self) -> str:
        """Of a list of all boats."""
        listed = self._client.list(Boat, namespace=self._namespace)
        list(listed)
        return str(listed.resourceVersion)

    def _meta(self, name: str) -> dict[str, str]:
        return {"name": name, "namespace": self._namespace}


@pytest.fixture
def operate(tmp_path: Path) -> Iterator[Any]:
    """Starts the operator for a namespace; its log is in the test's folder."""
    started: list[subprocess.Popen[bytes]] = []
    log = (tmp_path / "operator.log").open("wb")

    def start(kubeconfig: Path, namespace: str) -> None:
        command = [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace", namespace]
        environment = os.environ | {"KUBECONFIG": str(kubeconfig)}
        started.append(
            subprocess.Popen(
                [*command, str(HERE / "operator_of_boats.py")], env=environment, stdout=log, stderr=log
            )
        )

    yield start
    for process in started:
        process.terminate()
        assert process.wait(100) == 0
    log.close()


@pytest.fixture
def shipyard(client: Client) -> Iterator[Any]:
    """Defines Boats, when called; the kind goes after the test."""
    yield lambda: define(client)
    client.delete(Definition, name="boats.conformance.headgate.dev")


def define(client: Client) -> None:
    client.create(Definition.from_dict(yaml.safe_load((HERE / "boats.yaml").read_text())))


def served(client: Client, namespace: str) -> bool:
    try:
        list(client.list(Boat, namespace=namespace))
    except httpx2.HTTPStatusError as error:  # an ApiError, if the server knows the group
        assert error.response.status_code in (404, 429)  # not known yet, or its storage is not ready yet
        return False
    return True


def test_an_operator_works_through_a_cut_line(
    line: Any,
    kubeconfig: Path,
    shipyard: Any,
    operate: Any,
    client: Client,
    namespace: str,
    eventually: Any,
) -> None:
    """Handlers run for a kind that came later, finalizers hold, and nothing of the cut is missed."""
    harbour = Harbour(client, namespace)
    operate(kubeconfig, namespace)
    harbour.serve("one")
    eventually(lambda: harbour.greeting("one") == "vLLM")

    shipyard()
    eventually(lambda: served(client, namespace))
    for name in ("anna", "bella"):
        harbour.build(name, "salt")
    eventually(lambda: harbour.status("anna").get("captain") == "captain of salt")
    assert harbour.boat("anna")["metadata"]["finalizers"] == [FINALIZER]
    harbour.load("anna", "tea")
    eventually(lambda: harbour.status("anna").get("cargo") == "tea")
    assert harbour.status("anna")["before"] == "salt"
    assert harbour.status("anna")["launch"] == {"cargo": "salt"}
    eventually(lambda: harbour.status("anna").get("ticks") == 2)

    line.cut()
    harbour.load("anna", "silk")
    harbour.scrap("bella")
    harbour.build("clara", "rice")
    harbour.serve("two")
    assert "deletionTimestamp" in harbour.boat("bella")["metadata"]
    line.mend()
    eventually(lambda: harbour.status("anna").get("cargo") == "silk")
    eventually(lambda: harbour.boat("bella") == {})
    eventually(lambda: harbour.status("clara").get("captain") == "captain of rice")
    eventually(lambda: harbour.greeting("two") == "vLLM")
    eventually(lambda: {"Launched", "Scrapped"} <= harbour.reasons())

    for name in ("anna", "clara"):
        harbour.scrap(name)
    eventually(lambda: harbour.boat("anna") == harbour.boat("clara") == {})


@pytest.mark.embedded
def test_an_operator_works_through_expired_watches(
    restartable: Any, line_to: Any, is_expired: Any, operate: Any, eventually: Any
) -> None:
    """What it has not seen is lost to watches when the line is back: it lists again and catches up."""
    line, kubeconfig = line_to(restartable.kubeconfig)
    with Client(config=KubeConfig.from_file(restartable.kubeconfig), trust_env=False) as client:
        define(client)
        harbour = Harbour(client, "default")
        operate(kubeconfig, "default")
        for name in ("anna", "olga"):
            harbour.build(name, "salt")
        eventually(lambda: all(harbour.status(name).get("ticks") == 2 for name in ("anna", "olga")))
        seen = harbour.version()
        line.cut()
        harbour.load("anna", "tea")
        harbour.scrap("olga")
        harbour.build("bella", "rice")
    restartable.stop()
    restartable.start()
    assert is_expired(restartable.kubeconfig, "/apis/conformance.headgate.dev/v1/boats", seen)
    line.mend()
    with Client(config=KubeConfig.from_file(restartable.kubeconfig), trust_env=False) as client:
        harbour = Harbour(client, "default")
        eventually(lambda: harbour.status("anna").get("cargo") == "tea")
        eventually(lambda: harbour.boat("olga") == {})
        eventually(lambda: harbour.status("bella").get("captain") == "captain of rice")
        harbour.scrap("anna")
        eventually(lambda: harbour.boat("anna") == {})
