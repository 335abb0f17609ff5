"""`headgate get --watch` through a cut line, and through a watch that expired."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lightkube import Client, KubeConfig
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap


class Writer:
    """Changes ConfigMaps over a connection of its own, which nobody cuts."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace

    def create(self, name: str) -> None:
        meta = ObjectMeta(name=name, namespace=self._namespace, labels={"suite": "get"})
        self._client.create(ConfigMap(metadata=meta))

    def delete(self, name: str) -> None:
        self._client.delete(ConfigMap, name, namespace=self._namespace)


@pytest.fixture
def get(tmp_path: Path) -> Iterator[Any]:
    """Starts `headgate get configmaps -w -o name`; what it complains of is in the test's folder."""
    started: list[subprocess.Popen[str]] = []
    complaints = (tmp_path / "complaints").open("w")

    def start(kubeconfig: Path, namespace: str) -> subprocess.Popen[str]:
        words = ["get", "configmaps", "-w", "-o", "name", "-l", "suite=get"]
        command = [sys.executable, "-m", "headgate", *words, "-n", namespace, "--kubeconfig", str(kubeconfig)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True))
        return started[-1]

    yield start
    for process in started:
        process.terminate()
        process.communicate()
    complaints.close()


def test_a_cut_watch_goes_on(
    get: Any, line: Any, kubeconfig: Path, client: Client, namespace: str, tmp_path: Path
) -> None:
    """Everything of the cut is told after it, once, and that there was one."""
    writer = Writer(client, namespace)
    writer.create("a")
    out = get(kubeconfig, namespace).stdout
    assert out.readline() == "configmap/a\n"
    line.cut()
    writer.create("b")
    writer.delete("a")
    line.mend()
    assert [out.readline(), out.readline()] == ["configmap/b\n", "configmap/a\n"]
    writer.create("c")
    assert out.readline() == "configmap/c\n"
    assert (
        (tmp_path / "complaints").read_text().startswith("lost the connection to the API server, retrying: ")
    )


@pytest.mark.embedded
def test_an_expired_watch_shows_what_is_different(
    get: Any, restartable: Any, line_to: Any, tmp_path: Path
) -> None:
    """What is new is shown, what is as before is not, and what is gone is named."""
    line, kubeconfig = line_to(restartable.kubeconfig)
    with Client(config=KubeConfig.from_file(restartable.kubeconfig), trust_env=False) as client:
        for name in ("a", "b"):
            Writer(client, "default").create(name)
    out = get(kubeconfig, "default").stdout
    assert [out.readline(), out.readline()] == ["configmap/a\n", "configmap/b\n"]
    line.cut()
    with Client(config=KubeConfig.from_file(restartable.kubeconfig), trust_env=False) as client:
        Writer(client, "default").delete("a")
        Writer(client, "default").create("c")
    restartable.stop()
    restartable.start()
    line.mend()
    assert out.readline() == "configmap/c\n"
    with Client(config=KubeConfig.from_file(restartable.kubeconfig), trust_env=False) as client:
        Writer(client, "default").create("d")
    assert out.readline() == "configmap/d\n"
    assert "configmap/a was deleted in the meantime\n" in (tmp_path / "complaints").read_text()
