"""`headgate autoscale explain` prints what the status of a binding says, for people."""

from __future__ import annotations

from typing import Any

import msgspec
from click.testing import CliRunner

from headgate import api
from headgate.cli import main
from headgate.cli.autoscale.explaining import as_json, as_text

SCALING = {
    "target": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    "minReplicas": 1,
    "maxReplicas": 4,
}
POLICY = {
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"metrics": [{"metricName": "headgate:work_secs", "targetValue": "1"}]},
}


def binding(status: dict[str, Any], **spec: Any) -> api.AutoscalingPolicyBinding:
    manifest = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"policyRef": {"name": "p"}, **spec},
        "status": status,
    }
    return msgspec.convert(manifest, api.AutoscalingPolicyBinding)


def told(status: dict[str, Any], **spec: Any) -> str:
    policy = msgspec.convert(POLICY, api.AutoscalingPolicy)
    return "\n".join(as_text(binding(status, **spec), policy))


def target(name: str) -> dict[str, Any]:
    return {"kind": "Deployment", "namespace": "default", "name": name, "currentReplicas": 1}


def test_a_missing_metric_is_told_with_its_reason() -> None:
    """As the condition has it: the table says only that it is missing."""
    condition = {
        "type": "MetricsAvailable",
        "status": "False",
        "reason": "MetricsMissing",
        "message": "Not measured: headgate:work_secs; did you mean headgate:work_seconds?",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    metric = {"metricName": "headgate:work_secs", "targetValue": "1"}
    said = told({"conditions": [condition], "metrics": [metric]}, scalingConfiguration=SCALING)
    assert "headgate:work_secs  missing" in said
    assert "did you mean headgate:work_seconds?" in said


def test_a_start_that_fails_is_told() -> None:
    """Beside the decision, which may be right all the same."""
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "StartFailed",
        "message": "Replicas are decided, but no Pod becomes ready: no such image",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    said = told({"conditions": [condition], "message": "Stay at 1 replica."}, scalingConfiguration=SCALING)
    assert said.startswith("default/web: Stay at 1 replica.\nReplicas are decided, but no Pod becomes ready")


def test_costs_are_told_where_they_decide() -> None:
    """Of each target of several; one target has none."""
    params = [{**SCALING, "cost": 1}, {**SCALING, "cost": 4}]
    said = told(
        {"targets": [target("l4"), target("h100")]}, optimizerConfiguration={"params": params}
    ).splitlines()
    rows = [line.split() for line in said if line.startswith(("TARGET", "Deployment"))]
    assert [row[-1] for row in rows] == ["COST", "1", "4"]
    assert "COST" not in told({"targets": [target("web")]}, scalingConfiguration=SCALING)


def test_one_replica_is_no_plural() -> None:
    """In the limits of a policy with the defaults."""
    said = told({}, scalingConfiguration=SCALING)
    assert "1 replica or 100 % in 15s" in said


def test_programs_get_the_defaults_of_the_policy() -> None:
    """Those that are in effect although nobody wrote them."""
    policy = msgspec.convert(POLICY, api.AutoscalingPolicy)
    spec = as_json(binding({}, scalingConfiguration=SCALING), policy)["policySpec"]
    assert spec["tolerancePercent"] == 10
    assert spec["behavior"]["scaleUp"]["stablePolicy"]["instances"] == 1
    assert "panicPolicy" not in spec["behavior"]["scaleUp"]


def test_shells_complete_names_of_bindings(headgate: Any) -> None:
    """And files of traces."""
    policy = {"apiVersion": "registry.volcano.sh/v1alpha1", "kind": "AutoscalingPolicy", **POLICY}
    policy["metadata"] = {"name": "p"}
    manifest = {
        "apiVersion": "registry.volcano.sh/v1alpha1",
        "kind": "AutoscalingPolicyBinding",
        "metadata": {"name": "chat"},
        "spec": {"policyRef": {"name": "p"}, "scalingConfiguration": SCALING},
    }
    for each in (policy, manifest):
        headgate("apply", "-f", "-", stdin=msgspec.json.encode(each).decode())
    server = ["--kubeconfig", str(headgate.kubeconfig), "-n", headgate.namespace]
    assert completed("autoscale", "explain", *server, "ch") == ["plain,chat"]
    assert completed("autoscale", "explain", *server, "x") == []
    assert completed("autoscale", "replay", "--trace", "tr") == ["file,tr"]


def completed(*words: str) -> list[str]:
    line = ["headgate", *words]
    environment = {
        "_HEADGATE_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(line),
        "COMP_CWORD": str(len(line) - 1),
    }
    result = CliRunner().invoke(
        main, [], env=environment, prog_name="headgate", complete_var="_HEADGATE_COMPLETE"
    )
    return result.stdout.split()
