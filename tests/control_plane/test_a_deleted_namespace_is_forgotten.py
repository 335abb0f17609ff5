"""A namespace that is deleted with its Role while a gateway has no connection leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator

import pytest
from traffic import MODEL, NO_GATEWAY_API, route_to, server


class Wire:
    """Forwards connections to the API server, and can be cut."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._is_cut = False
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._is_cut = True
        for each in list(self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._is_cut = False

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self._is_cut:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._to))
                self._open |= {near, far}
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._copy, args=(one, other), daemon=True).start()

    def _copy(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)
        self._open.discard(one)
        one.close()


@pytest.fixture
def wire(cluster) -> Iterator[Wire]:
    wire = Wire(int(cluster.server.rpartition(":")[2]))
    yield wire
    wire.close()


@pytest.mark.parametrize("helm", ["3"], indirect=True)
def test_a_namespace_is_deleted_during_an_outage(
    cluster, helm, namespace, new_namespace, kubeconfig_of, grant, start_gateway, wire, eventually
):
    """With the ClusterRole of the chart. A right that is lost while the namespace exists changes nothing."""
    gone, kept = new_namespace(), new_namespace()
    kubeconfig = kubeconfig_of("gateway", gone, kept)
    values = {
        "watchNamespaces": [namespace, gone, kept],
        "rbac": {"readNamespaces": True},
        "admission": {"policies": {"enabled": False}},
    }
    cluster.apply(
        *(
            each
            for each in helm.template(values, namespace)
            if each["kind"].startswith("ClusterRole") and "gateway" in each["metadata"]["name"]
        )
    )
    config = json.loads(kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{wire.port}"
    kubeconfig.write_text(json.dumps(config))
    for where, model in {namespace: MODEL, gone: "gone", kept: "kept"}.items():
        cluster.apply(server("chat"), route_to("chat", model), namespace=where)
    followed = [word for each in (namespace, gone, kept) for word in ("--namespace", each)]
    gateway = start_gateway(kubeconfig, *followed, *NO_GATEWAY_API)
    eventually(lambda: gateway.is_ready() and len(gateway.config()["pools"]) == 3)

    wire.cut()
    cluster.kubectl("delete", "namespace", gone)
    cluster.kubectl("delete", "rolebindings", "--all", "-n", kept)
    # A watch that the server still allows is not ended when it no longer would.
    token = config["users"][0]["user"]["token"]
    path = "/apis/networking.volcano.sh/v1alpha1/namespaces/{}/modelservers"
    for where in (gone, kept):
        eventually(lambda where=where: cluster.request(path.format(where), token).status_code == 403)
    wire.mend()
    eventually(lambda: len(gateway.config()["pools"]) == 2)
    eventually(lambda: {each["namespace"] for each in gateway.config()["denied"]} == {gone, kept})
    pools = gateway.config()["pools"]
    assert f"namespace {gone} is deleted: so are its modelservers" in gateway.log.read_text()
    assert not [name for name in pools if gone in name]
    assert [name for name in pools if kept in name]
    assert gateway.ask("gone").status_code == 404
    assert gateway.ask("kept").status_code == 503
