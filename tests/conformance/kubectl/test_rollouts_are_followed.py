"""`kubectl rollout` and `logs`, with a node and its controllers at work.

The Deployments have no replicas, so that a cluster needs no image for them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = [pytest.mark.kubectl, pytest.mark.controllers]

DONE = 'deployment "web" successfully rolled out\n'
CAUSE = "kubernetes.io/change-cause"


@pytest.fixture(scope="module", autouse=True)
def node(server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The node of the embedded API server; a cluster has controllers and nodes of its own."""
    if not server.embedded:
        yield
        return
    state = tmp_path_factory.mktemp("node")
    command = "from headgate.cli.node import node; node()"
    arguments = ["--kubeconfig", str(server.kubeconfig), "--state", str(state), "--node-name", "conformance"]
    with (state / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-c", command, *arguments], stderr=log)
        yield
        process.terminate()
        assert process.wait(100) == 0


@pytest.fixture
def web(kubectl: Any) -> Any:
    """kubectl, in a namespace with the Deployment `web`, which is rolled out."""
    kubectl("create", "deployment", "web", "--image=web:1", "--replicas=0")
    follow(kubectl)
    return kubectl


def follow(kubectl: Any) -> None:
    assert kubectl("rollout", "status", "deployment/web", "--timeout=60s").endswith(DONE)


def history(kubectl: Any) -> list[list[str]]:
    lines = kubectl("rollout", "history", "deployment/web").splitlines()
    assert lines[0].rstrip() == "deployment.apps/web"
    assert lines[1].split() == ["REVISION", "CHANGE-CAUSE"]
    return [line.split() for line in lines[2:] if line]


def image(kubectl: Any) -> str:
    shown: str = kubectl(
        "get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}"
    )
    return shown


def test_revisions_are_kept_and_returned_to(web: Any) -> None:
    """`history` lists revisions with their causes; `undo` makes an old one the newest."""
    assert history(web) == [["1", "<none>"]]
    web("annotate", "deployment/web", f"{CAUSE}=second")
    web("set", "image", "deployment/web", "web=web:2")
    follow(web)
    assert [revision for revision, _ in history(web)] == ["1", "2"]
    assert history(web)[1] == ["2", "second"]
    details = web("rollout", "history", "deployment/web", "--revision=2").splitlines()
    assert details[0] == "deployment.apps/web with revision #2"
    assert "    Image:\tweb:2" in details
    assert web("rollout", "undo", "deployment/web") == "deployment.apps/web rolled back\n"
    follow(web)
    assert image(web) == "web:1"
    assert [revision for revision, _ in history(web)] == ["2", "3"]
    assert web("rollout", "undo", "deployment/web", "--to-revision=2") == "deployment.apps/web rolled back\n"
    follow(web)
    assert image(web) == "web:2"
    assert web.refused("rollout", "undo", "deployment/web", "--to-revision=9") == (
        "error: unable to find specified revision 9 in history\n"
    )
    web("rollout", "pause", "deployment/web")
    assert web.refused("rollout", "undo", "deployment/web") == (
        "error: you cannot rollback a paused deployment; resume it first with 'kubectl rollout resume' and "
        "try again\n"
    )


def test_a_rollout_pauses_and_restarts(web: Any) -> None:
    """Paused, a change waits; resumed, it rolls out; `restart` makes a revision without a change."""
    assert web("rollout", "pause", "deployment/web") == "deployment.apps/web paused\n"
    assert web.refused("rollout", "pause", "deployment/web") == (
        'error: deployments.apps "web" is already paused\n'
    )
    web("set", "image", "deployment/web", "web=web:2")
    assert history(web) == [["1", "<none>"]]
    assert web("rollout", "resume", "deployment/web") == "deployment.apps/web resumed\n"
    follow(web)
    assert [revision for revision, _ in history(web)] == ["1", "2"]
    assert web("rollout", "restart", "deployment/web") == "deployment.apps/web restarted\n"
    follow(web)
    assert len(history(web)) == 3
    assert image(web) == "web:2"


def test_a_deployment_shows_its_sets(web: Any) -> None:
    """Tables and `describe` show the ReplicaSets; they go with the Deployment."""
    columns, row = web("get", "replicasets", "-l", "app=web").splitlines()
    assert columns.split() == ["NAME", "DESIRED", "CURRENT", "READY", "AGE"]
    name, *numbers, _ = row.split()
    assert re.fullmatch(r"web-[a-z0-9]+", name)
    assert numbers == ["0", "0", "0"]
    columns, row = web("get", "deployment", "web").splitlines()
    assert columns.split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert row.split()[:4] == ["web", "0/0", "0", "0"]
    shown = web("describe", "deployment", "web").splitlines()
    assert f"NewReplicaSet:   {name} (0/0 replicas created)" in shown
    assert "OldReplicaSets:  <none>" in shown
    assert web("get", "all", "-l", "app=web", "-o", "name").splitlines() == [
        "deployment.apps/web",
        f"replicaset.apps/{name}",
    ]
    web("delete", "deployment", "web")
    web("wait", f"replicaset/{name}", "--for=delete", "--timeout=60s")


@pytest.mark.embedded
def test_logs_are_read_and_followed(kubectl: Any) -> None:
    """`logs` of a Pod that runs as a process: all of them, the last lines, and as they come."""
    script = "echo one; echo two; sleep 60"
    container = {"name": "talk", "image": "any:1", "command": ["sh", "-c", script]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "talk"},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    kubectl("create", "-f", "-", stdin=pod)
    kubectl("wait", "pod/talk", "--for=condition=Ready", "--timeout=60s")
    following = kubectl.start("logs", "talk", "-f")
    assert [following.stdout.readline(), following.stdout.readline()] == ["one\n", "two\n"]
    assert kubectl("logs", "talk") == "one\ntwo\n"
    assert kubectl("logs", "pod/talk", "-c", "talk", "--tail=1") == "two\n"
    assert kubectl("get", "pod", "talk").splitlines()[1].split()[:4] == ["talk", "1/1", "Running", "0"]
    assert kubectl("delete", "pod", "talk") == 'pod "talk" deleted\n'
    assert following.wait(100) == 0
