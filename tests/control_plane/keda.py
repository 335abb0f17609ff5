"""KEDA beside the cluster; `conftest` imports the fixture."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aggregation import PURPOSES, aggregated_api
from clusters import TOOL, wait_until
from traffic import answers


@pytest.fixture
def keda(
    cluster: Any,
    namespace: str,
    models: str,
    start: Any,
    new_address: Any,
    unused_tcp_port_factory: Any,
    tmp_path: Path,
) -> Iterator[None]:
    """Its operator and its metrics server, for the ScaledObjects of the namespace `models`."""
    ports = [unused_tcp_port_factory() for _ in range(3)]
    with running_keda(cluster, namespace, models, start, new_address(), ports, tmp_path):
        yield


@contextmanager
def running_keda(
    cluster: Any,
    namespace: str,
    watched: str,
    start: Callable[..., Path],
    address: str,
    ports: Sequence[int],
    directory: Path,
) -> Iterator[None]:
    """KEDA for the ScaledObjects of a namespace. Its metrics server has an address, and is registered in
    another namespace; its other ports are three of loopback."""
    words = [sys.executable, TOOL, "path-keda"]
    found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    if not found:
        pytest.skip("there is no KEDA: `make keda` builds it")
    programs, certificates = Path(found), directory / "keda"
    definitions = ("-f", programs / "definitions")
    cluster.define(*definitions)
    make_certificate(certificates, "127.0.0.1", address)
    health, metrics, service = ports
    environ = {
        "KUBECONFIG": cluster.kubeconfig,
        "POD_NAMESPACE": namespace,
        "KEDA_CLUSTER_OBJECT_NAMESPACE": namespace,
        "WATCH_NAMESPACE": watched,
    }
    env = ["env", *(f"{name}={value}" for name, value in environ.items())]
    start(
        "keda",
        f"--cert-dir={certificates}",
        "--metrics-bind-address=0",
        f"--health-probe-bind-address=127.0.0.1:{health}",
        f"--metrics-service-bind-address=127.0.0.1:{service}",
        program=[*env, programs / "keda"],
    )
    wait_until(lambda: answers(f"http://127.0.0.1:{health}/readyz"))
    start(
        "keda-adapter",
        f"--cert-dir={certificates}",
        f"--tls-cert-file={certificates / 'tls.crt'}",
        f"--tls-private-key-file={certificates / 'tls.key'}",
        f"--bind-address={address}",
        "--secure-port=6443",
        f"--port={metrics}",
        f"--metrics-service-address=127.0.0.1:{service}",
        *(f"--{purpose}-kubeconfig={cluster.kubeconfig}" for purpose in PURPOSES),
        program=[*env, programs / "keda-adapter"],
    )
    with aggregated_api(cluster, namespace, "keda", address, "external.metrics.k8s.io", "v1beta1"):
        yield
        # The operator removes its finalizers.
        cluster.kubectl("delete", "scaledobjects", "--all", "-n", watched, "--timeout=60s")
    cluster.kubectl("delete", *definitions)


def make_certificate(directory: Path, *addresses: str) -> None:
    """Writes one that is its own authority, and its key."""
    directory.mkdir()
    names = ",".join(f"IP:{address}" for address in addresses)
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    words += ["-subj", "/CN=test", "-addext", f"subjectAltName={names}"]
    made = ["-keyout", "tls.key", "-out", "tls.crt"]
    subprocess.run([*words, *made], cwd=directory, check=True, capture_output=True)
    (directory / "ca.crt").write_bytes((directory / "tls.crt").read_bytes())
