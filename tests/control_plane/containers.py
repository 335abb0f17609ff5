"""The chart's containers, run as processes with their commands and variables at addresses of Pods."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
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
    with containers_in(tmp_path) as run:
        yield run


@contextlib.contextmanager
def containers_in(directory: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts containers, which end with the block. The files of /etc/headgate are those of a directory."""
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
            words = [word.replace("/etc/headgate", str(directory)) for word in container["args"]]
            words = [word.replace("$(POD_IP)", address) for word in words]
            log = running.enter_context((directory / f"{pod}.log").open("w"))
            process = running.enter_context(
                subprocess.Popen([*HEADGATE, *words], env=environ, stdout=log, stderr=log)
            )
            running.callback(process.kill)
            return process

        yield run


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
