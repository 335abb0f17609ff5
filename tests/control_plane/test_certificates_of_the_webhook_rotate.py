"""No write fails while the webhook renews its certificates, and it recovers from a lost or invalid Secret."""

from __future__ import annotations

import base64
import datetime
import json
import threading

import admission_cases
import pytest

from headgate.serving import certificates

SHORT = {"--valid-s": "36", "--overlap-s": "4", "--lease-s": "3"}
"""A certificate is renewed after 24 s; API servers and other replicas have 4 s to load it."""
ROUTE = admission_cases.base("ModelRoute").obj


class Writer(threading.Thread):
    """Writes again and again while it is entered, each time over the webhook; asserts that nothing fails."""

    def __init__(self, hook, namespace):
        super().__init__()
        self.hook, self.namespace = hook, namespace
        self.count, self.failures = 0, []
        self.stop = threading.Event()

    def run(self):
        while not self.stop.wait(0.1):
            told = self.hook.try_to_create(ROUTE, self.namespace)
            self.count += 1
            if "created" not in told:
                self.failures.append(told)

    def writes(self, more, eventually):
        """Wait until it has written so often again."""
        wanted = self.count + more
        eventually(lambda: self.count >= wanted or self.failures, limit_s=150)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.join()
        assert self.failures == []


@pytest.fixture
def hook(cluster, webhook_of, namespace, eventually):
    """Two replicas; a write fails if the API server cannot ask one."""
    cluster.kubectl("label", "namespace", namespace, "asked=rotating")
    hook = webhook_of("rotating", failure_policy="Fail", replicas=2, options=SHORT)
    for url in hook.urls:
        hook.configure(url)
        eventually(lambda: "there is no ModelServer" in hook.try_to_create(ROUTE, namespace))
    return hook


def test_writes_succeed_while_certificates_are_renewed(cluster, namespace, eventually, hook):
    """Three certificates in turn, by each of two replicas."""
    seen = {eventually(lambda: hook.secret()["data"].get("ca.crt"))}
    for url in hook.urls:
        hook.configure(url)
        eventually(lambda: "there is no ModelServer" in hook.try_to_create(ROUTE, namespace))
        with Writer(hook, namespace) as writer:
            eventually(lambda: hook.secret()["data"].get("ca.crt") not in seen, limit_s=150)
            seen.add(hook.secret()["data"]["ca.crt"])
            writer.writes(40, eventually)
    assert len(seen) == 3


@pytest.mark.parametrize("what", ["deleted", "corrupt", "of another key"])
def test_a_lost_secret_is_replaced_without_a_failed_write(cluster, namespace, eventually, hook, what):
    """Replicas go on with the certificate in memory until the new one is trusted."""
    eventually(lambda: "ca.crt" in hook.secret()["data"])
    before = hook.secret()["data"]["ca.crt"]
    with Writer(hook, namespace) as writer:
        if what == "deleted":
            cluster.kubectl("delete", "secret", hook.name, "-n", hook.namespace)
        else:
            garbage = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nnone\n").decode()
            data = (
                {"tls.crt": garbage} if what == "corrupt" else {"tls.key": hook.secret()["data"]["tls.crt"]}
            )
            patch = json.dumps({"data": data})
            cluster.kubectl("patch", "secret", hook.name, "-n", hook.namespace, "--type=merge", "-p", patch)
        eventually(lambda: hook.secret()["data"].get("ca.crt", before) != before, limit_s=150)
        writer.writes(20, eventually)


def test_an_overwritten_configuration_is_repaired(namespace, eventually, hook):
    """As after it was applied again without its authorities: then the API server trusts nothing."""
    hook.configure(hook.urls[0], authorities=base64.b64encode(_foreign_authority()).decode())
    eventually(lambda: "created" in hook.try_to_create(ROUTE, namespace))


def _foreign_authority():
    return certificates.issue("other", ["127.0.0.1"], datetime.datetime.now(datetime.UTC)).ca
