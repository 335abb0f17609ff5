"""The two servers that are compared."""

from __future__ import annotations

import contextlib
import datetime
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml
from asking import Client, Server
from comparing import Difference, compare
from stories import Request, Story

from headgate.apiserver.users import Tokens

ROOT = Path(__file__).resolve().parents[2]
AT_ONCE = 4
READER = "reader"


@contextlib.contextmanager
def new_real(state: Path) -> Iterator[Server]:
    """A control plane without the controllers of workloads, with our definitions."""
    command = [sys.executable, "-P", ROOT / "tools" / "control_plane", "up", "--bare", state]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:  # noqa: S603
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            printed = process.stdout.readline()
            assert printed, process.stderr.read()
            yield real(Path(printed.strip()))
        finally:
            process.terminate()
            process.communicate()


def real(kubeconfig: Path) -> Server:
    """A running control plane, with our definitions and a user who may read."""
    server = Server.of(kubeconfig)
    client = Client(server)
    with contextlib.closing(client):
        definitions = _definitions()
        for manifest in [*definitions, *_rights()]:
            _apply(client, manifest)
        for definition in definitions:
            _await(client, definition)
    return server


@contextlib.contextmanager
def new_embedded(state: Path) -> Iterator[Server]:
    """An embedded server with an empty state."""
    command = [sys.executable, "-P", "-c", "import headgate.cli; headgate.cli.main()", "apiserver"]
    words = ["--state", str(state), "--port", "0"]
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            assert process.stdout is not None
            assert "ready" in process.stdout.readline()
            yield embedded(state)
        finally:
            process.terminate()


def embedded(state: Path) -> Server:
    """A running embedded server, with a user who may read."""
    tokens = Tokens(state)
    if READER not in {token.name for token in tokens.list()}:
        tokens.create(READER, "read-only", datetime.datetime.now(datetime.UTC))
    return Server.of(state / "kubeconfig")


def version(server: Server) -> str:
    """The version of Kubernetes that a server reports."""
    client = Client(server)
    with contextlib.closing(client):
        reported: str = client.ask(Request("version", "GET", "/version"), {}).body["gitVersion"]
    return reported


def compare_all(stories: Sequence[Story], real: Server, embedded: Server) -> list[Difference]:
    """All differences, in the order of the stories."""
    suffix = uuid.uuid4().hex[:6]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        found = threads.map(lambda story: compare(story, real, embedded, suffix), stories)
        return [each for differences in found for each in differences]


def _definitions() -> list[dict]:
    files = sorted((ROOT / "deploy" / "crds").glob("*.yaml"))
    return [yaml.safe_load(file.read_text()) for file in files]


def _rights() -> list[dict]:
    """Of the reader: everything but Secrets, as the embedded server has it."""
    reads = ["get", "list", "watch"]
    resources = ["configmaps", "endpoints", "events", "namespaces", "nodes", "pods", "pods/log", "services"]
    rules = [
        {"apiGroups": [""], "resources": [*resources, "serviceaccounts"], "verbs": reads},
        *({"apiGroups": [group], "resources": ["*"], "verbs": reads} for group in _groups()),
        {"nonResourceURLs": ["*"], "verbs": ["get"]},
    ]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": READER}}
    about = {"apiGroup": "rbac.authorization.k8s.io"}
    return [
        role | {"rules": rules},
        role
        | {
            "kind": "ClusterRoleBinding",
            "roleRef": about | {"kind": "ClusterRole", "name": READER},
            "subjects": [about | {"kind": "User", "name": READER}],
        },
    ]


def _groups() -> list[str]:
    own = {definition["spec"]["group"] for definition in _definitions()}
    return [
        *sorted(own),
        "apps",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "apiextensions.k8s.io",
        "autoscaling",
    ]


def _apply(client: Client, manifest: dict) -> None:
    plural = {"CustomResourceDefinition": "customresourcedefinitions"}.get(
        manifest["kind"], manifest["kind"].lower() + "s"
    )
    path = f"/apis/{manifest['apiVersion']}/{plural}/{manifest['metadata']['name']}"
    query = "?fieldManager=comparison&force=true"
    media = {"Content-Type": "application/apply-patch+yaml"}
    done = client.ask(Request("apply", "PATCH", path + query, media, json.dumps(manifest)), {})
    assert done.code in (200, 201), done.body


def _await(client: Client, definition: dict) -> None:
    """Waits until a kind is served."""
    spec = definition["spec"]
    served = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    client.ask(Request("served", "GET", served, until=200), {})
