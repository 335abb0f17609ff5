"""Processes of `headgate webhook` for the API server; `conftest` imports the fixture."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from clusters import WAIT_S, Cluster

GROUPS = [
    "networking.volcano.sh",
    "registry.volcano.sh",
    "llmd.ai",
    "inference.networking.k8s.io",
    "inference.networking.x-k8s.io",
]


@dataclass(frozen=True)
class Webhook:
    """Processes of `headgate webhook`, and the configuration by which the API server asks one of them."""

    name: str
    """Of the configuration, the Secret and the Lease."""
    namespace: str
    urls: list[str]
    failure_policy: str
    cluster: Cluster

    def configure(self, url: str, authorities: str | None = None) -> None:
        """Let the API server ask this process, trusting these authorities, in base64; None: as before."""
        if authorities is None:
            words = ["validatingwebhookconfiguration", self.name, "--ignore-not-found", "-o", "json"]
            found = json.loads(self.cluster.kubectl("get", *words) or "{}")
            authorities = (found.get("webhooks") or [{"clientConfig": {}}])[0]["clientConfig"].get("caBundle")
        rule = {
            "apiGroups": GROUPS,
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["*"],
        }
        client = {"url": url} | ({"caBundle": authorities} if authorities else {})
        webhook = {
            "name": "rules.headgate.dev",
            "clientConfig": client,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": self.failure_policy,
            "timeoutSeconds": 5,
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"asked": self.name}} if self.name != "rules" else {},
        }
        configuration = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": self.name},
            "webhooks": [webhook],
        }
        self.cluster.kubectl("apply", "-f", "-", text=json.dumps(configuration))

    def secret(self) -> Any:
        """The Secret, with no data if there is none."""
        found = self.cluster.kubectl(
            "get", "secret", self.name, "-n", self.namespace, "--ignore-not-found", "-o", "json"
        )
        secret = json.loads(found or "{}")
        return {"data": {}} | secret

    def try_to_create(self, obj: dict[str, Any], namespace: str) -> str:
        """What kubectl says about a dry run, whether it succeeds or not."""
        flags = ["--kubeconfig", self.cluster.kubeconfig, "--cache-dir", self.cluster.state / "kubectl-cache"]
        command = [self.cluster.programs / "kubectl", *flags, "create", "--dry-run=server", "-f", "-"]
        done = subprocess.run(
            [*command, "-n", namespace], input=json.dumps(obj), capture_output=True, text=True, timeout=WAIT_S
        )
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def webhook_of(cluster: Cluster) -> Iterator[Callable[..., Webhook]]:
    """Starts `headgate webhook`, and lets the API server ask it."""
    processes: list[subprocess.Popen[str]] = []
    readers: list[threading.Thread] = []
    made: list[Webhook] = []

    def run(
        name: str, *, failure_policy: str, replicas: int = 1, options: dict[str, str] | None = None
    ) -> Webhook:
        for each in made:
            if each.name == name:
                return each
        urls = []
        for _ in range(replicas):
            command = [sys.executable, "-m", "headgate", "webhook", "--kubeconfig", cluster.kubeconfig]
            command += ["--host", "127.0.0.1", "--port", "0", "--name", "127.0.0.1", "--configuration", name]
            command += ["--secret", f"default/{name}", "--lease", f"default/{name}"]
            command += [word for pair in ({"--lease-s": "3"} | (options or {})).items() for word in pair]
            process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            processes.append(process)
            assert process.stderr is not None
            while not (line := process.stderr.readline()).startswith("headgate webhook is ready: "):
                assert line, "the webhook ended"
            urls.append(line.split(": ", 1)[1].strip())
            readers.append(threading.Thread(target=process.stderr.read))
            readers[-1].start()
        webhook = Webhook(name, "default", urls, failure_policy, cluster)
        webhook.configure(urls[0])
        made.append(webhook)
        return webhook

    yield run
    for each in made:
        cluster.kubectl("delete", "validatingwebhookconfiguration", each.name)
    for process in processes:
        process.terminate()
    for process, reader in zip(processes, readers, strict=True):
        assert process.wait() == 0
        reader.join()
        process.stderr.close()
