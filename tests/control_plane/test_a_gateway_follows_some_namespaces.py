"""A gateway with Roles in some namespaces, and no ClusterRole, serves what it may read."""

from __future__ import annotations

from typing import Any

import pytest
from traffic import MODEL, NO_GATEWAY_API, Listener, route_to, server


@pytest.fixture
def other(new_namespace) -> str:
    return new_namespace()


@pytest.fixture
def run(cluster, host, new_address, listen):
    """Makes a ready Pod of app=chat, with an engine, in a namespace."""

    def make(namespace: str) -> Listener:
        address = new_address()
        engine = listen(address)
        cluster.apply(host.pod("chat", "chat"), namespace=namespace)
        host.report("chat", namespace, [address], {"ContainersReady": True, "Ready": True})
        return engine

    return make


def test_the_routes_of_two_namespaces_are_served(
    cluster, namespace, other, new_namespace, kubeconfig_of, start_gateway, run, eventually
):
    """Those of a third one are not, although they exist."""
    third = new_namespace()
    gateway = start_gateway(
        kubeconfig_of("gateway", other), "--namespace", namespace, "--namespace", other, *NO_GATEWAY_API
    )
    eventually(gateway.is_ready)
    models = {namespace: MODEL, other: "other", third: "third"}
    for where, model in models.items():
        cluster.apply(server("chat"), route_to("chat", model), namespace=where)
    first, second = run(namespace), run(other)
    eventually(lambda: gateway.ask(MODEL).status_code == 200 and gateway.ask("other").status_code == 200)
    assert first.served > 0
    assert second.served > 0
    assert gateway.ask("third").status_code == 404
    assert gateway.config()["denied"] == []


def test_pods_that_may_not_be_read_are_reported_and_the_rest_is_served(
    cluster, namespace, other, grant, kubeconfig_of, start_gateway, run, eventually
):
    """The log, the metric and the state name the namespace and the rule. Once it is granted, it is used."""
    kubeconfig = kubeconfig_of("gateway")
    grant("gateway", other, without=("pods",))
    gateway = start_gateway(kubeconfig, "--namespace", namespace, "--namespace", other, *NO_GATEWAY_API)
    for where, model in {namespace: MODEL, other: "other"}.items():
        cluster.apply(server("chat"), route_to("chat", model), namespace=where)
    run(namespace)
    run(other)
    eventually(lambda: gateway.is_ready() and gateway.ask(MODEL).status_code == 200)
    # Each namespace is watched for itself: its route may come later.
    eventually(lambda: gateway.ask("other").status_code == 503)
    told = (
        f"pods of namespace {other} may not be read: pods is forbidden: "
        f'User "system:serviceaccount:{namespace}:headgate-gateway" cannot list resource "pods" in API group '
        f'"" in the namespace "{other}"; add the rule {{apiGroups: [""], resources: [pods], '
        f"verbs: [list, watch]}} to a Role in namespace {other} that is bound to this account"
    )
    assert gateway.config()["denied"] == [{"kind": "Pod", "namespace": other, "message": told}]
    assert gateway.log.read_text().count(told) == 1
    sample = f'headgate_gateway_denied_kinds{{kind="pods",namespace="{other}"}} 1.0'
    eventually(lambda: sample in gateway.samples("headgate_gateway_denied_kinds"))

    grant("gateway", other)
    eventually(lambda: gateway.ask("other").status_code == 200)
    assert gateway.config()["denied"] == []


def test_a_gateway_without_any_pods_is_not_ready(
    namespace, grant, cluster, kubeconfig_of, start_gateway, eventually
):
    """So a rollout with a wrong role does not go on. It becomes ready once it has the right."""
    kubeconfig = kubeconfig_of("gateway")
    grant("gateway", namespace, without=("pods",))
    gateway = start_gateway(kubeconfig, "--namespace", namespace)
    eventually(lambda: "pods of namespace" in gateway.log.read_text())
    assert not gateway.is_ready()
    grant("gateway", namespace)
    eventually(gateway.is_ready)


def test_a_controller_writes_no_status_for_pods_that_it_may_not_read(
    cluster, namespace, other, grant, kubeconfig_of, start, eventually
):
    """It would report them missing. It writes the others, and these as soon as it has the right."""
    kubeconfig = kubeconfig_of("controller")
    grant("controller", other, without=("pods",))
    for where in (namespace, other):
        cluster.apply(server("chat"), namespace=where)
    followed = ("--namespace", namespace, "--namespace", other)
    log = start("controller", "controller", "--kubeconfig", kubeconfig, *followed)

    def status(where: str) -> dict[str, Any]:
        return cluster.get("modelserver", "chat", "-n", where).get("status", {})

    eventually(lambda: status(namespace))
    assert status(other) == {}
    assert f"pods of namespace {other} may not be read" in log.read_text()
    grant("controller", other)
    eventually(lambda: status(other))
