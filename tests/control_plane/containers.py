"""The chart's containers, run as processes with their commands and variables at addresses of Pods."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HEADGATE = [sys.executable, "-m", "headgate"]


@pytest.fixture
def run_container(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts the container of a component, as the kubelet would; it ends with the test.

    The files of /etc/headgate are those of the test's directory.
    """
    with contextlib.ExitStack() as running:

        def run(
            rendered: list[dict[str, Any]],
            component: str,
            address: str,
            kubeconfig: Path,
            pod: str | None = None,
        ) -> subprocess.Popen[bytes]:
            pod = pod or f"{component}-0"
            container = container_of(rendered, component)
            fields = {"status.podIP": address, "metadata.name": pod}
            environ = {"PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig)}
            for each in container["env"]:
                source = each.get("valueFrom")
                value = fields[source["fieldRef"]["fieldPath"]] if source else each["value"]
                environ[each["name"]] = value.replace("$(POD_IP)", address)
            words = [word.replace("/etc/headgate", str(tmp_path)) for word in container["args"]]
            words = [word.replace("$(POD_IP)", address) for word in words]
            log = running.enter_context((tmp_path / f"{pod}.log").open("w"))
            process = running.enter_context(
                subprocess.Popen([*HEADGATE, *words], env=environ, stdout=log, stderr=log)
            )
            running.callback(process.kill)
            return process

        yield run


@pytest.fixture
def lasting_node(cluster: Any, node: Any) -> Iterator[Any]:
    """A node that stays ready during the test: it has heartbeats."""
    ended = threading.Event()
    path = f"/api/v1/nodes/{node.name}/status"

    def beat() -> None:
        with cluster.client() as client:
            while not ended.wait(10):
                now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now}
                client.patch(
                    path,
                    json={"status": {"conditions": [ready]}},
                    headers={"content-type": "application/strategic-merge-patch+json"},
                )

    thread = threading.Thread(target=beat)
    thread.start()
    yield node
    ended.set()
    thread.join()


def container_of(rendered: list[dict[str, Any]], component: str) -> dict[str, Any]:
    [deployment] = [
        each
        for each in rendered
        if each["metadata"]["name"] == f"headgate-{component}" and each["kind"] == "Deployment"
    ]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    return container


def write_settings(rendered: list[dict[str, Any]], directory: Path) -> None:
    """The file that the gateway's container mounts."""
    [file] = [each["data"]["gateway.yaml"] for each in rendered if "gateway.yaml" in each.get("data", {})]
    (directory / "gateway.yaml").write_text(file)
