"""The chart's roles let the gateway, the controller and the webhook do all they do, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from audit import forbidden, requests_of

from headgate import cluster as headgate_cluster
from headgate.quota import gateways

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "reference"
HEADGATE = [sys.executable, "-m", "headgate"]
WITH_STATUS = (
    "modelroutes",
    "modelservers",
    "inferencepools.inference.networking.k8s.io",
    "inferencepools.inference.networking.x-k8s.io",
    "inferencemodels",
    "inferenceobjectives",
    "models.registry.volcano.sh",
    "autoscalingpolicies",
    "autoscalingpolicybindings",
    "variantautoscalings",
)


GROUPS = ["networking.volcano.sh", "inference.networking.k8s.io", "llmd.ai", "registry.volcano.sh"]


class Access(NamedTuple):
    group: str
    resource: str
    """With its subresource."""
    verb: str
    name: str = ""
    """Of the object, where a rule is restricted to it."""


@dataclass(frozen=True)
class Account:
    """One of the chart's service accounts, with the rules of its roles."""

    user: str
    kubeconfig: Path
    namespace: str
    granted: set[Access] = field(default_factory=set)


class Installed(NamedTuple):
    gateway: Account
    controller: Account
    webhook: Account


@pytest.fixture(params=["cluster", "namespaces"])
def scope(request, namespace, new_namespace) -> list[str]:
    """The namespaces that are followed: all of them, or two."""
    return [] if request.param == "cluster" else [namespace, new_namespace()]


@pytest.fixture
def installed(scope, cluster, helm, namespace, tmp_path) -> Iterator[Installed]:
    """The accounts and roles of the chart."""
    name = f"headgate-{namespace[-6:]}"
    values = {"fullnameOverride": name, "watchNamespaces": scope, "rbac": {"secretNames": ["engines-ca"]}}
    values["admission"] = {"webhook": {"enabled": True}}
    rendered = helm.template(values, namespace)
    rights = [each for each in rendered if "Role" in each["kind"] or each["kind"] == "ServiceAccount"]
    for each in rights:
        cluster.apply(each, namespace=each["metadata"].get("namespace", namespace))
    accounts = {part: _account(cluster, namespace, f"{name}-{part}", tmp_path) for part in Installed._fields}
    roles = {(each["kind"], each["metadata"]["name"]): each for each in rights}
    for each in rights:
        if each["kind"].endswith("Binding"):
            [subject] = each["subjects"]
            role = roles[each["roleRef"]["kind"], each["roleRef"]["name"]]
            accounts[subject["name"].removeprefix(f"{name}-")].granted.update(_granted(role))
    yield Installed(**accounts)
    for kind, role in roles:
        if kind.startswith("Cluster"):
            cluster.kubectl("delete", kind, role)


def _account(cluster: Any, namespace: str, name: str, directory: Path) -> Account:
    file = cluster.kubeconfig_of(name, namespace, directory)
    return Account(f"system:serviceaccount:{namespace}:{name}", file, namespace)


def _granted(role: dict[str, Any]) -> Iterator[Access]:
    for rule in role["rules"]:
        names = rule.get("resourceNames", [""])
        for parts in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"], names):
            yield Access(*parts)


def examples() -> list[dict[str, Any]]:
    """The first example of each page of the reference, with what has more rights be used."""
    found = {}
    for page in sorted(PAGES.glob("*.md")):
        for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.M | re.S)[:1]:
            for each in yaml.safe_load_all(block):
                if each["kind"] == "Namespace":
                    continue
                del each["metadata"]["namespace"]
                found[each["apiVersion"], each["kind"]] = each
    route = found["networking.volcano.sh/v1alpha1", "ModelRoute"]
    # Nobody listens there: gateways report that in their Leases, and in a condition of the route.
    shared = {"global": {"redis": {"address": "10.244.0.1:6379"}}}
    route["spec"]["rules"] = [{"name": "all", "targetModels": [{"modelServerName": "chat-small"}]}]
    route["spec"]["rateLimit"] = {"unit": "minute", "inputTokensPerUnit": 1000, **shared}
    server = found["networking.volcano.sh/v1alpha1", "ModelServer"]
    server["metadata"]["annotations"] = {"headgate.dev/tls-ca": "engines-ca"}
    server["spec"]["workloadPort"]["protocol"] = "https"
    # The workload of the VariantAutoscaling owns it.
    labels = {"app": "variant"}
    engine = {"containers": [{"name": "engine", "image": "engine:1"}]}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}}
    template = {"metadata": {"labels": labels}, "spec": engine}
    variant = found["llmd.ai/v1alpha1", "VariantAutoscaling"]["metadata"]["name"]
    workload = _object("apps/v1", "Deployment", variant, {**spec, "template": template})
    return [*found.values(), workload]


def test_nothing_is_forbidden_and_nothing_is_unused(
    cluster, namespace, scope, installed, start, unused_tcp_port_factory, eventually
):
    """As the audit log of the API server shows."""
    gateway, controller, webhook = installed
    followed = [f"--namespace={each}" for each in scope]
    lease = next(access.name for access in controller.granted if access.verb == "update")
    words = ["--kubeconfig", controller.kubeconfig, "--leader-elect", lease, *followed]
    planning = ["--planning-namespace", namespace] if scope else []
    # As the chart has it: GatewayClasses are in no namespace.
    off = ["--gateway-controller-name", ""] if scope else []
    start("controller", "controller", *words, "--gateway-service", "gateways", *planning, *off)
    ports = [str(unused_tcp_port_factory()) for _ in range(3)]
    flags = zip(("--port", "--metrics-port", "--admin-port"), ports, strict=True)
    off = ["--gateway-api-controller", ""] if scope else []
    start("gateway", "gateway", "--kubeconfig", gateway.kubeconfig, *followed, *itertools.chain(*flags), *off)
    port = unused_tcp_port_factory()
    hook = next(access.name for access in webhook.granted if access.resource.startswith("validating"))
    # The roles are tried with a configuration of the test: that of the chart names a Service.
    cluster.apply(_configuration(hook, namespace, port))
    # The webhook has to delete a Secret that it cannot change.
    cluster.apply(_secret_of_another_type(hook), namespace=namespace)
    names = ["--configuration", hook, "--secret", hook, "--lease", hook, "--name", "127.0.0.1"]
    place = ["--host", "127.0.0.1", "--port", str(port), "--overlap-s", "1"]
    start("webhook", "webhook", "--kubeconfig", webhook.kubeconfig, *names, *place, *followed)
    eventually(lambda: _asks(cluster, namespace))
    manifests = examples()
    cluster.apply(*manifests, namespace=namespace)
    cluster.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "engines-ca"}}, namespace=namespace
    )

    def conditions(kind: str) -> set[str]:
        found = cluster.get(kind, "-n", namespace)["items"]
        status = [each.get("status", {}) for each in found]
        listed = [each.get("conditions", []) for each in status]
        listed += [parent["conditions"] for each in status for parent in each.get("parents", [])]
        return {each["type"] for each in itertools.chain(*listed)}

    for kind in WITH_STATUS:
        eventually(lambda kind=kind: conditions(kind))
    eventually(lambda: "LimitsShared" in conditions("modelroutes"))
    # An event that happens again is counted.
    [server] = [each for each in manifests if each["kind"] == "ModelServer"]
    for _ in range(2):
        cluster.kubectl("delete", "modelserver", "chat-small", "-n", namespace)
        eventually(lambda: _resolved(cluster, namespace) == "False")
        cluster.apply(server, namespace=namespace)
        eventually(lambda: _resolved(cluster, namespace) == "True")
    if not scope:
        _serve_by_a_gateway(cluster, namespace, eventually)
    _change_a_model(cluster, namespace, eventually)
    _scale(cluster, namespace, eventually)
    asyncio.run(_forget_a_gateway(gateway))
    cluster.kubectl("delete", "validatingwebhookconfiguration", hook)

    for account in installed:
        with contextlib.suppress(AssertionError):  # the assertion below names what is unused
            eventually(lambda account=account: account.granted <= _used(cluster, account), 30)
        assert account.granted - _used(cluster, account) == set()
        assert forbidden(cluster, account.user) == []


def _serve_by_a_gateway(cluster: Any, namespace: str, eventually: Any) -> None:
    """The kinds of the Gateway API that have a status."""
    group, name = "gateway.networking.k8s.io/v1", f"class-{namespace}"
    listener = {"name": "http", "port": 8088, "protocol": "HTTP"}
    of_class = {"controllerName": "headgate.dev/gateway-controller"}
    made = _object(group, "GatewayClass", name, of_class)
    gateway = {"gatewayClassName": name, "listeners": [listener]}
    route = {"parentRefs": [{"name": "front"}], "rules": [{"backendRefs": [{"name": "web", "port": 80}]}]}
    cluster.apply(made)
    cluster.apply(
        _object(group, "Gateway", "front", gateway),
        _object(group, "HTTPRoute", "route", route),
        namespace=namespace,
    )
    for kind, each, part in (
        ("gatewayclass", name, "conditions"),
        ("gateway", "front", "listeners"),
        ("httproute", "route", "parents"),
    ):
        eventually(lambda kind=kind, each=each, part=part: _status(cluster, kind, each, namespace).get(part))
    cluster.kubectl("delete", "gatewayclass", name)


def _status(cluster: Any, kind: str, name: str, namespace: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.get(kind, name, "-n", namespace).get("status", {})
    return found


def _scale(cluster: Any, namespace: str, eventually: Any) -> None:
    """Replicas of each kind that can be scaled, and annotations of pools that requests start."""
    metrics = [{"metricName": "load", "targetValue": "1"}]
    objects = [_object("registry.volcano.sh/v1alpha1", "AutoscalingPolicy", "scaled", {"metrics": metrics})]
    template = {
        "metadata": {"labels": {"app": "scaled"}},
        "spec": {"containers": [{"name": "engine", "image": "engine:1"}]},
    }
    selected = {"replicas": 1, "selector": {"matchLabels": {"app": "scaled"}}, "template": template}
    group = {"replicas": 1, "leaderWorkerTemplate": {"size": 1, "workerTemplate": template}}
    workloads = {
        ("apps/v1", "Deployment"): selected,
        ("apps/v1", "StatefulSet"): {**selected, "serviceName": "scaled"},
        ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): group,
    }
    for (version, kind), spec in workloads.items():
        objects += [_object(version, kind, "scaled", spec), _bound(version, kind, "scaled", 2)]
    idle = {"metadata": {"labels": {"app": "idle"}}, "spec": template["spec"]}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "idle"}}, "template": idle}
    v1 = {"selector": {"matchLabels": {"app": "idle"}}, "targetPorts": [{"number": 8000}]}
    v1 |= {"endpointPickerRef": {"name": "picker", "port": {"number": 9002}}}
    old = {"selector": {"app": "idle"}, "targetPortNumber": 8000}
    pools = {"inference.networking.k8s.io/v1": v1, "inference.networking.x-k8s.io/v1alpha1": old}
    objects += [_object("apps/v1", "Deployment", "idle", spec), _bound("apps/v1", "Deployment", "idle", 0)]
    objects += [_object(version, "InferencePool", "idle", spec) for version, spec in pools.items()]
    cluster.apply(*objects, namespace=namespace)
    for _, kind in workloads:
        eventually(lambda kind=kind: cluster.get(kind, "scaled", "-n", namespace)["spec"]["replicas"] == 2)
    for version in pools:
        kind = f"inferencepools.{version.partition('/')[0]}"
        eventually(
            lambda kind=kind: (
                "headgate.dev/scale-from-zero"
                in cluster.get(kind, "idle", "-n", namespace)["metadata"].get("annotations", {})
            )
        )


def _object(version: str, kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def _bound(version: str, kind: str, name: str, least: int) -> dict[str, Any]:
    target = {"targetRef": {"apiVersion": version, "kind": kind, "name": name}}
    configuration = {"target": target, "minReplicas": least, "maxReplicas": 3}
    annotations = {"headgate.dev/scale-to-zero-grace-period": "5m"} if not least else {}
    spec = {"policyRef": {"name": "scaled"}, "scalingConfiguration": configuration}
    own = f"{name}-{kind.lower()}"
    place = "registry.volcano.sh/v1alpha1", "AutoscalingPolicyBinding", own
    return _object(*place, spec, annotations=annotations)


def _configuration(name: str, namespace: str, port: int) -> dict[str, Any]:
    webhook = {
        "name": "rules.headgate.dev",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/validate"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "rules": [{"apiGroups": GROUPS, "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["*"]}],
    }
    metadata = {"name": name}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": metadata,
        "webhooks": [webhook],
    }


def _secret_of_another_type(name: str) -> dict[str, Any]:
    data = {"tls.crt": "Z2FyYmFnZQ==", "tls.key": "Z2FyYmFnZQ=="}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": name},
        "data": data,
    }


def _asks(cluster: Any, namespace: str) -> bool:
    """Whether the webhook is asked: it reads the Service of a pool's picker."""
    picker = {"name": "picker", "port": {"number": 9002}}
    pool = {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {"name": "asked"},
        "spec": {
            "selector": {"matchLabels": {"app": "asked"}},
            "targetPorts": [{"number": 8000}],
            "endpointPickerRef": picker,
        },
    }
    text = json.dumps(pool)
    words = ["create", "--dry-run=server", "-n", namespace, "-f", "-"]
    return "there is no Service" in cluster.kubectl(*words, text=text)


def _resolved(cluster: Any, namespace: str) -> str:
    route = cluster.get("modelroute", "chat", "-n", namespace)
    conditions = {each["type"]: each for each in route["status"]["conditions"]}
    return str(conditions["ResolvedRefs"]["status"])


def _change_a_model(cluster: Any, namespace: str, eventually: Any) -> None:
    """Its objects of every kind come, and go."""
    backend = {
        "type": "vLLM",
        "modelURI": "hf://org/model",
        "minReplicas": 1,
        "maxReplicas": 1,
        "workers": [{"type": "server"}],
    }
    adapters = [{"name": f"adapter-{number}", "artifactURL": "hf://org/adapter"} for number in range(11)]
    policy = {"metrics": [{"metricName": "num_requests_waiting", "targetValue": 1}]}
    scaled = {**backend, "name": "scaled", "loraAdapters": adapters, "autoscalingPolicy": policy}
    split = {"type": "server", "pods": 2, "config": {"tensor_parallel_size": 2}}
    large = {**backend, "name": "large", "workers": [split]}
    model = {
        "apiVersion": "registry.volcano.sh/v1alpha1",
        "kind": "Model",
        "metadata": {"name": "changed"},
        "spec": {"backends": [scaled, large]},
    }
    words = ("-n", namespace, "-f", "-")
    cluster.kubectl("create", *words, text=json.dumps(model))

    def names(kind: str) -> set[str]:
        return {each["metadata"]["name"] for each in cluster.get(kind, "-n", namespace)["items"]}

    gone = [
        ("deployments", "changed-scaled"),
        ("leaderworkersets", "changed-large"),
        ("modelservers", "changed-large"),
        ("modelroutes", "changed-adapters-1"),
        ("autoscalingpolicies", "changed-scaled"),
        ("autoscalingpolicybindings", "changed-scaled"),
    ]
    eventually(lambda: all(name in names(kind) for kind, name in gone))
    model["spec"] = {"backends": [{**backend, "name": "other"}]}
    cluster.kubectl("replace", *words, text=json.dumps(model))
    eventually(lambda: not any(name in names(kind) for kind, name in gone))


async def _forget_a_gateway(account: Account) -> None:
    """A gateway deletes the Lease of one that has been gone for five minutes, which pass at once here."""
    now = 0.0
    async with headgate_cluster.Client.from_kubeconfig(account.kubeconfig) as client:
        await gateways.Gateways(client, "gone", 1).report({})
        other = gateways.Gateways(client, "here", 1, (), lambda: now)
        await other.report({})
        await other.all()
        now = gateways.FORGET_S + 1
        await other.forget_gone()


def _used(cluster: Any, account: Account) -> set[Access]:
    """What the account did, with and without the name of the object."""
    found = set()
    for event in requests_of(cluster, account.user):
        code = event.get("responseStatus", {}).get("code", 0)
        about = event["objectRef"]
        resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
        # A server-side apply that creates needs the right to create, too.
        verbs = [event["verb"], *(["create"] if (event["verb"], code) == ("patch", 201) else [])]
        for verb, name in itertools.product(verbs, ("", about.get("name", ""))):
            found.add(Access(about.get("apiGroup", ""), resource, verb, name))
    return found
