"""Suites that know of an API server what its kubeconfig says, and nothing else.

`HEADGATE_TEST_KUBECONFIG` names any API server: a real kube-apiserver, say. Without it, an embedded one is
started for the session, and only its kubeconfig is handed on. The definitions of our kinds, and two that the
suites bring along, are installed if they are missing. Each test has a namespace of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightkube
import pytest
import yaml
from lightkube import ApiError, KubeConfig
from lightkube.generic_resource import create_global_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Namespace, ServiceAccount

from headgate.api.definitions import custom_definitions

sys.path.insert(0, str(Path(__file__).parent / "driver"))

KUBECONFIG_VARIABLE = "HEADGATE_TEST_KUBECONFIG"
GROUP = "conformance.headgate.dev"
WAIT_S = 120.0
SERVE = """
import sys
from headgate.cli.apiserver import apiserver

apiserver(["--state", sys.argv[1], "--port", "0"])
"""


@dataclass(frozen=True)
class Server:
    """An API server: what a user of it has in hand."""

    kubeconfig: Path
    embedded: bool

    def client(self) -> lightkube.Client:
        """A client for what the suites prepare; close it after use."""
        config = KubeConfig.from_file(self.kubeconfig)
        return lightkube.Client(config=config, field_manager="conformance", trust_env=False)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The API server under test, with the definitions that the suites need."""
    with _server(SERVE, tmp_path_factory.mktemp("apiserver")) as found:
        yield found


@pytest.fixture(scope="session")
def another_server() -> Callable[[str, Path], AbstractContextManager[Server]]:
    """Makes servers that are embedded and started by a program of one's own; given another, it is that one.

    The program has the folder of its state as its argument, and prints "ready" when it is.
    """
    return _server


@contextmanager
def _server(program: str, state: Path) -> Iterator[Server]:
    if chosen := os.environ.get(KUBECONFIG_VARIABLE):
        given = Server(Path(chosen).expanduser(), embedded=False)
        _install_definitions(given)
        yield given
        return
    with subprocess.Popen(
        [sys.executable, "-c", program, str(state)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            assert "ready" in process.stdout.readline()
            started = Server(state / "kubeconfig", embedded=True)
            _install_definitions(started)
            yield started
        finally:
            process.terminate()
    assert process.returncode == 0


@pytest.fixture(autouse=True)
def _needs(request: pytest.FixtureRequest) -> None:
    """Skips what this API server cannot show."""
    if request.node.get_closest_marker("embedded") and os.environ.get(KUBECONFIG_VARIABLE):
        pytest.skip("only the embedded API server can show this")
    if request.node.get_closest_marker("controllers") and not request.getfixturevalue("has_controllers"):
        pytest.skip("this API server has no controller manager")


@pytest.fixture(scope="session")
def client(server: Server) -> Iterator[lightkube.Client]:
    """Prepares and cleans up what a test needs."""
    with server.client() as opened:
        yield opened


@pytest.fixture(scope="session")
def has_controllers(server: Server, client: lightkube.Client) -> bool:
    """Whether a controller manager is at work: then a new namespace gets an account within seconds."""
    if server.embedded:
        return True
    name = _new_namespace(client)
    try:
        _until(lambda: _exists(client, ServiceAccount, "default", name), 5.0)
    except AssertionError:
        return False
    finally:
        _delete(client, Namespace, name)
    return True


@pytest.fixture(scope="session")
def namespaces_of() -> Callable[[Server, int], AbstractContextManager[tuple[str, ...]]]:
    """Makes namespaces on a server that may be another one; they go at the end."""

    @contextmanager
    def made(server: Server, number: int) -> Iterator[tuple[str, ...]]:
        with server.client() as client:
            names = tuple(_new_namespace(client) for _ in range(number))
            yield names
            for name in names:
                _delete(client, Namespace, name)

    return made


@pytest.fixture
def namespace(server: Server, client: lightkube.Client, has_controllers: bool) -> Iterator[str]:
    """A namespace for one test, with a name that nobody has had."""
    name = _new_namespace(client)
    if not server.embedded:  # a cluster may refuse Pods until there is the account that they run as
        if has_controllers:
            _until(lambda: _exists(client, ServiceAccount, "default", name))
        else:
            client.create(ServiceAccount(metadata=ObjectMeta(name="default", namespace=name)))
    yield name
    _delete(client, Namespace, name)


@pytest.fixture
def gate() -> dict[str, Any]:
    """An object of the kind that the suites bring along."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Gate",
        "metadata": {"name": "north", "labels": {"river": "aare"}},
        "spec": {"width": 3, "replicas": 2, "material": "oak"},
    }


OWN_DEFINITIONS: list[dict[str, Any]] = [
    yaml.safe_load(Path(__file__).with_name(name).read_text()) for name in ("gates.yaml", "weirs.yaml")
]

Definition = create_global_resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"
)


def _install_definitions(server: Server) -> None:
    """Creates the definitions that are missing, and waits until their kinds are served."""
    definitions = [*custom_definitions(), *OWN_DEFINITIONS]
    names = [definition["metadata"]["name"] for definition in definitions]
    with server.client() as client:
        for definition, name in zip(definitions, names, strict=True):
            if not _exists(client, Definition, name):
                _create(client, definition)
        _until(lambda: all(_established(client.get(Definition, name=name)) for name in names))


def _create(client: lightkube.Client, definition: dict[str, Any]) -> None:
    try:
        client.create(Definition.from_dict(definition))
    except ApiError as error:
        if error.status.code != 409:  # another worker was faster
            raise


def _new_namespace(client: lightkube.Client) -> str:
    name = f"conformance-{uuid.uuid4().hex[:10]}"
    client.create(Namespace(metadata=ObjectMeta(name=name)))
    return name


def _established(definition: Any) -> bool:
    conditions = (definition.status or {}).get("conditions", [])
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def _exists(client: lightkube.Client, kind: Any, name: str, namespace: str | None = None) -> bool:
    try:
        client.get(kind, name=name, namespace=namespace)
    except ApiError as error:
        if error.status.code != 404:
            raise
        return False
    return True


def _delete(client: lightkube.Client, kind: Any, name: str) -> None:
    try:
        client.delete(kind, name=name)
    except ApiError as error:
        if error.status.code not in (404, 409):  # gone already, or going
            raise


def _until(ready: Callable[[], bool], wait_s: float = WAIT_S) -> None:
    deadline = time.monotonic() + wait_s
    while not ready():
        assert time.monotonic() < deadline, "the API server did not get ready in time"
        time.sleep(0.05)
