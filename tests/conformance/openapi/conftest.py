"""A server for made-up requests: an embedded one of their own, as they may delete anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import config

import requests

POD = {"nodeSelector": {"conformance.headgate.dev/none": "here"}, "containers": [{"name": "c", "image": "i"}]}
LABELS = {"app": "a"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": POD}
DEPLOYMENT = {"replicas": 0, "selector": {"matchLabels": LABELS}, "template": TEMPLATE}
PRESENT: dict[str, Any] = {
    "/api/v1/namespaces/{}/configmaps": {"data": {"k": "v"}},
    "/api/v1/namespaces/{}/pods": {"spec": POD},
    "/apis/apps/v1/namespaces/{}/deployments": {"spec": DEPLOYMENT},
    "/apis/conformance.headgate.dev/v1/namespaces/{}/weirs": {"spec": {"width": 1}},
}
SERVE = """
import sys
from headgate.cli.apiserver import apiserver

apiserver(["--state", sys.argv[1], "--port", "0"])
"""


class Asking:
    """A server with an object named "a" of some kinds in one namespace."""

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        self.namespace = namespace
        found = config.new_client_from_config(kubeconfig).configuration
        self.url: str = found.host
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = found.ssl_ca_cert or found.verify_ssl
        self._session.cert = (found.cert_file, found.key_file) if found.cert_file else None
        self._session.headers.update({s["key"]: s["value"] for s in found.auth_settings().values()})

    def ask(self, headers: Any = None, **request: Any) -> requests.Response:
        """Follows no redirect, and has its own credentials whatever headers are made up."""
        kept = {name: value for name, value in (headers or {}).items() if name.lower() != "authorization"}
        return self._session.request(headers=kept, allow_redirects=False, timeout=30, **request)

    def prepare(self) -> None:
        """Makes what is to be there."""
        for path, obj in PRESENT.items():
            url = self.url + path.format(self.namespace)
            made = self.ask(method="POST", url=url, json=obj | {"metadata": {"name": "a"}})
            assert made.status_code in (201, 409), made.text

    def close(self) -> None:
        self._session.close()


@pytest.fixture(scope="module")
def asking(another_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    """The requests may reach everything; the namespace `default` cannot be deleted, whatever is asked."""
    with another_server(SERVE, tmp_path_factory.mktemp("fuzzed")) as server:
        made = Asking(str(server.kubeconfig), "default")
        yield made
        made.close()
