"""The Helm chart renders what its values say, with every version of Helm, and refuses invalid values."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from headgate.api import definitions
from headgate.dataplane.providers import provider_file
from headgate.gateway import setting_types

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "headgate"
COMPONENTS = ("gateway", "controller", "webhook", "admission", "picker")
EVERYTHING = CHART / "ci" / "everything-values.yaml"


def objects(rendered: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By kind and name; a Role that there is in several namespaces is one."""
    found = {f"{each['kind']}/{each['metadata']['name']}": each for each in rendered}
    places = {
        (each["kind"], each["metadata"]["name"], each["metadata"].get("namespace")) for each in rendered
    }
    assert len(places) == len(rendered)
    return found


def pod_of(rendered: list[dict[str, Any]], component: str = "gateway") -> dict[str, Any]:
    deployment = objects(rendered)[f"Deployment/headgate-{component}"]
    return deployment["spec"]["template"]


def everything() -> dict[str, Any]:
    return yaml.safe_load(EVERYTHING.read_text())


def test_lint_finds_nothing(helm):
    for words in ((), ("--values", EVERYTHING)):
        told = helm.run("lint", "--strict", CHART, *words)
        assert "1 chart(s) linted, 0 chart(s) failed" in told
        assert "[WARNING]" not in told


def test_by_default_there_is_only_what_every_cluster_accepts(helm):
    kinds = {each["kind"] for each in helm.template({})}
    assert kinds == {
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "Deployment",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }


def test_every_value_can_be_switched(helm):
    """Each object has labels of its component, and its namespace if it has one."""
    rendered = helm.template(everything())
    assert {"HorizontalPodAutoscaler"} <= {each["kind"] for each in rendered}
    for each in rendered:
        assert each["metadata"]["labels"]["app.kubernetes.io/component"] in COMPONENTS
        assert ("namespace" in each["metadata"]) != each["kind"].startswith(("Cluster", "Validating"))


@pytest.mark.parametrize("component", ["gateway", "controller", "webhook"])
def test_pods_have_no_rights_on_their_node(helm, component):
    spec = pod_of(helm.template({"admission": {"webhook": {"enabled": True}}}), component)["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    [container] = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}


def test_the_webhook_replaces_policies_that_only_warn(helm):
    """It gives the same warnings, with the exact place of each."""

    def policies(values: dict[str, Any]) -> set[str]:
        rendered = helm.template({"admission": values})
        return {each["metadata"]["name"] for each in rendered if each["kind"] == "ValidatingAdmissionPolicy"}

    with_both = policies({"webhook": {"enabled": True}})
    assert with_both == {each for each in policies({}) if "-errors-" in each} != set()
    assert policies({"policies": {"enabled": False}}) == set()


def test_the_webhook_is_asked_by_the_name_of_its_certificate(helm):
    """And not about its own namespace."""
    found = objects(helm.template({"admission": {"webhook": {"enabled": True}}}))
    [webhook] = found["ValidatingWebhookConfiguration/headgate-webhook"]["webhooks"]
    service = webhook["clientConfig"]["service"]
    [container] = pod_of(list(found.values()), "webhook")["spec"]["containers"]
    assert f"--name={service['name']}.{service['namespace']}.svc" in container["args"]
    assert "caBundle" not in webhook["clientConfig"]  # which an upgrade would reset
    assert webhook["failurePolicy"] == "Ignore"
    [selected] = webhook["namespaceSelector"]["matchExpressions"]
    assert (selected["operator"], selected["values"]) == ("NotIn", ["kube-system", "headgate-system"])
    resources = {
        (group, name)
        for rule in webhook["rules"]
        for group in rule["apiGroups"]
        for name in rule["resources"]
    }
    assert resources == {(each.group, each.plural) for each in definitions.custom_resources()}


@pytest.mark.parametrize(
    ("shutdown", "seconds"),
    [
        ({}, 80),
        ({"lameduck_s": 2.5, "drain_s": 600}, 613),
        ({"lameduck_s": None, "drain_s": None}, 40),  # 0 and 30, as the gateway has by default
    ],
)
def test_pods_may_end_as_slowly_as_the_gateway_does(helm, shutdown, seconds):
    pod = pod_of(helm.template({"gateway": {"settings": {"shutdown": shutdown}}}))
    assert pod["spec"]["terminationGracePeriodSeconds"] == seconds
    assert "lifecycle" not in pod["spec"]["containers"][0]


def test_the_gateway_accepts_its_file(helm, tmp_path):
    """Numbers stay whole, however large they are."""
    settings = {"clients": {"max_bodies_bytes": 107374182400}, "workers": {"count": 2}}
    values = {"gateway": {"settings": settings}, "watchNamespace": "models"}
    text = objects(helm.template(values))["ConfigMap/headgate-gateway"]["data"]["gateway.yaml"]
    file = tmp_path / "gateway.yaml"
    file.write_text(text)
    command = [sys.executable, "-m", "headgate", "gateway", "--config", file, "--check-config"]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, f"{file} is valid\n")
    read = yaml.safe_load(text)
    assert read["clients"] == {"max_bodies_bytes": 107374182400}
    assert read["kubernetes"] == {"namespaces": ["models"]}
    assert read["shutdown"] == {"lameduck_s": 10, "drain_s": 60}


OTHER_VALUES = {
    "auth.namespace": "keys",
    "host": "::1",
    "port": 4711,
    "count": 3,
    "kubeconfig": "/k",
    "namespaces": ["n"],
    "gateways": 5,
    "redis_hosts": ["redis"],
    "redis_tls": True,
    "redis_ca_file": "/ca",
    "controller": "example.com/gateways",
    "addresses": "assigned",
    "peers.addresses": ["127.0.0.1:4712"],
    "discovery": True,
    "advertise": "gateway:4712",
    "token_file": "/token",
    "interval_s": 0.05,
    "cert_files": ["/tls/tls.crt"],
    "key_files": ["/tls/tls.key"],
    "secrets": ["tls"],
    "min_version": "1.3",
    "ciphers": "ECDHE+AESGCM",
    "http2": False,
    "client_certificates": "optional",
    "client_ca_file": "/tls/ca.crt",
    "redirect_port": 8080,
    "endpoint": "http://collector:4318",
}


def test_only_settings_that_need_a_restart_replace_the_pods(helm):
    """The gateway applies all others while it serves."""

    def checksum(settings: dict[str, Any]) -> str:
        annotations = pod_of(helm.template({"gateway": {"settings": settings}}))["metadata"]["annotations"]
        return annotations["checksum/settings-of-start"]

    before = checksum({})
    assert checksum({"logging": {"level": "debug"}, "clients": {"keep_alive_s": 5}}) == before
    assert checksum({"workers": {"hang_s": 5}, "rate_limits": {"strict": True}}) == before
    for section in setting_types.sections():
        for setting in section.settings:
            if not setting.is_live:
                other = OTHER_VALUES.get(setting.path) or OTHER_VALUES[setting.name]
                changed = {section.name: {setting.name: other}}
                assert checksum(changed) != before, setting.path


def test_ports_follow_the_settings(helm):
    values = {"gateway": {"settings": {"listen": {"port": 8000, "host": "0.0.0.0"}, "admin": {"port": 8001}}}}
    [container] = pod_of(helm.template(values))["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"http": 8000, "metrics": 9090, "admin": 8001}
    names = {each["name"] for each in container["env"]}
    assert names == {"POD_IP", "HEADGATE_METRICS_HOST", "HEADGATE_ADMIN_HOST"}


@pytest.mark.parametrize(
    ("values", "namespaces"),
    [
        ({"watchNamespace": "models"}, ["models"]),
        ({"watchNamespaces": ["a", "b"]}, ["a", "b"]),
        ({"watchNamespace": "b", "watchNamespaces": ["a", "b"]}, ["b", "a"]),
    ],
)
def test_some_namespaces_need_no_cluster_role(helm, values, namespaces):
    """Roles in each of them, with the same rules."""
    rendered = helm.template(values)
    assert not [each for each in rendered if each["kind"].startswith("Cluster")]
    for part in ("gateway", "controller"):
        for kind in ("Role", "RoleBinding"):
            wanted = (kind, f"headgate-{part}")
            found = [each for each in rendered if (each["kind"], each["metadata"]["name"]) == wanted]
            assert [each["metadata"]["namespace"] for each in found] == namespaces
            assert len({json.dumps(each.get("rules")) for each in found}) == 1
    args = pod_of(rendered, "controller")["spec"]["containers"][0]["args"]
    assert [each for each in args if each.startswith("--namespace=")] == [
        f"--namespace={each}" for each in namespaces
    ]
    settings = objects(rendered)["ConfigMap/headgate-gateway"]["data"]["gateway.yaml"]
    assert yaml.safe_load(settings)["kubernetes"] == {"namespaces": namespaces}
    assert yaml.safe_load(settings)["gateway_api"] == {"controller": ""}


def test_a_cluster_role_lets_them_read_gateway_classes(helm):
    """In some namespaces only if wanted, as these are in no namespace."""
    values = {"watchNamespaces": ["a"], "rbac": {"readGatewayClasses": True}}
    rendered = helm.template(values, "here")
    names = {each["metadata"]["name"] for each in rendered if each["kind"] == "ClusterRole"}
    assert names == {f"headgate-{part}-gateway-classes-here" for part in ("gateway", "controller")}
    settings = objects(rendered)["ConfigMap/headgate-gateway"]["data"]["gateway.yaml"]
    assert "gateway_api" not in yaml.safe_load(settings)


def test_secrets_can_be_read_only_if_they_are_named(helm):
    def rules(names: list[str]) -> list[dict[str, Any]]:
        role = objects(helm.template({"rbac": {"secretNames": names}}))["ClusterRole/headgate-gateway"]
        return [rule for rule in role["rules"] if rule["resources"] == ["secrets"]]

    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]}
    assert rules([]) == []
    assert rules(["ca", "other"]) == [rule | {"resourceNames": ["ca", "other"]}]
    assert rules(["*"]) == [rule]


def test_a_cluster_role_lets_them_detect_deleted_namespaces(helm):
    """If wanted: by name, and of no other namespace."""
    values = {"watchNamespaces": ["a", "b"], "rbac": {"readNamespaces": True}}
    rendered = [each for each in helm.template(values, "here") if each["kind"] == "ClusterRole"]
    for component in ("gateway", "controller"):
        [role] = [each for each in rendered if component in each["metadata"]["name"]]
        assert role["metadata"]["name"] == f"headgate-{component}-namespaces-here"
        rule = {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["a", "b"], "verbs": ["get"]}
        assert role["rules"] == [rule]


def test_a_cluster_role_lets_the_controller_read_nodes(helm):
    """If wanted, and nobody else."""
    for values in ({}, {"watchNamespaces": ["a"]}):
        rendered = helm.template({**values, "rbac": {"readNodes": True}}, "here")
        roles = [each for each in rendered if each["kind"] == "ClusterRole"]
        rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}
        assert [each["metadata"]["name"] for each in roles if rule in each["rules"]] == [
            "headgate-controller-nodes-here"
        ]
        assert "nodes" not in str([each for each in helm.template(values) if "Role" in each["kind"]])


def test_rules_and_the_dashboard_are_rendered_verbatim(helm):
    """Their own templates, such as {{ $labels.pool }}, are for Prometheus and Grafana."""
    found = objects(helm.template(everything()))
    for file, name in (("alerts", "headgate-gateway"), ("signals", "headgate-gateway-signals")):
        rules = ROOT / "deploy" / "prometheus" / f"headgate-{file}.yaml"
        assert found[f"PrometheusRule/{name}"]["spec"] == yaml.safe_load(rules.read_text())
    dashboard = json.loads(found["ConfigMap/headgate-dashboard"]["data"]["headgate.json"])
    assert dashboard == json.loads((CHART / "files" / "dashboard.json").read_text())
    [endpoint] = found["PodMonitor/headgate-gateway"]["spec"]["podMetricsEndpoints"]
    [container] = found["Deployment/headgate-gateway"]["spec"]["template"]["spec"]["containers"]
    assert endpoint["port"] in {port["name"] for port in container["ports"]}


def test_the_gateway_scales_by_cpu_or_by_its_requests(helm):
    def metrics(**scaling: Any) -> list[dict[str, Any]]:
        rendered = helm.template({"gateway": {"autoscaling": {"enabled": True, **scaling}}})
        assert "replicas" not in objects(rendered)["Deployment/headgate-gateway"]["spec"]
        return objects(rendered)["HorizontalPodAutoscaler/headgate-gateway"]["spec"]["metrics"]

    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
    assert metrics() == [{"type": "Resource", "resource": cpu}]
    [of_pods] = metrics(cpuPercent=0, activeRequests=50)
    assert of_pods["pods"]["metric"] == {"name": "headgate_gateway_active_requests"}
    values = helm.values({"gateway": {"autoscaling": {"enabled": True, "cpuPercent": 0}}})
    told = helm.run("template", "headgate", CHART, *values, fails=True)
    assert "set cpuPercent or activeRequests" in told


def test_a_network_policy_opens_each_port_to_its_own_clients(helm):
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    values = {"networkPolicy": {"enabled": True, "metrics": [monitoring]}}
    found = objects(helm.template(values))
    rules = {each["ports"][0]["port"]: each.get("from") for each in _ingress(found, "gateway")}
    assert rules["http"] is rules["admin"] is None
    controllers = {"app.kubernetes.io/component": "controller"}
    [others, own] = rules["metrics"]
    assert others == monitoring
    assert own["podSelector"]["matchLabels"].items() >= controllers.items()  # they read the load
    assert _ingress(found, "controller") == [{"ports": [{"port": "metrics"}], "from": [monitoring]}]


def _ingress(found: dict[str, dict[str, Any]], component: str) -> list[dict[str, Any]]:
    spec = found[f"NetworkPolicy/headgate-{component}"]["spec"]
    assert spec["policyTypes"] == ["Ingress"]
    return spec.get("ingress", [])


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"gateway": {"replica": 3}}, "gateway"),
        ({"gateway": {"replicas": "3"}}, "gateway/replicas"),
        ({"gateway": {"settings": {"shutdown": {"drain": 3}}}}, "gateway/settings/shutdown"),
        ({"gateway": {"settings": {"logging": {"level": "loud"}}}}, "gateway/settings/logging/level"),
        ({"image": {"digest": "abc"}}, "image/digest"),
        ({"rbac": {"secretNames": "ca"}}, "rbac/secretNames"),
        ({"watchNamespaces": ["a", "B"]}, "watchNamespaces/1"),
    ],
)
def test_invalid_values_are_refused_with_their_path(helm, values, path):
    told = helm.run("template", "headgate", CHART, *helm.values(values), fails=True)
    assert path.replace("/", ".") in told or f"/{path}" in told


def test_external_providers_are_a_file(helm, tmp_path):
    """It is as the gateway reads it, and the settings name it; without providers, neither is there."""
    data = objects(helm.template(everything()))["ConfigMap/headgate-gateway"]["data"]
    settings = yaml.safe_load(data["gateway.yaml"])
    assert settings["providers"] == {"file": "/etc/headgate/providers.yaml"}
    file = tmp_path / "providers.yaml"
    file.write_text(data["providers.yaml"])
    (read,) = provider_file.read(file)
    assert (read.provider.name, read.provider.limits.input) == ("openai", 2_000_000)
    data = objects(helm.template({}))["ConfigMap/headgate-gateway"]["data"]
    assert list(data) == ["gateway.yaml"]
    assert "providers" not in yaml.safe_load(data["gateway.yaml"])
