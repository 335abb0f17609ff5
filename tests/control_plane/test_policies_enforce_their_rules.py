"""A real API server warns of, or rejects, by our policies what the embedded one does by its rules."""

from __future__ import annotations

import copy
import json
import uuid
from pathlib import Path

import admission_cases
import pytest

from headgate.api import policies, policy_checks
from headgate.api.admission import enforcement
from headgate.api.admission.enforcement import EnforcedBy

FILE = Path(__file__).parents[2] / "deploy" / "admission" / "policies.yaml"
CASES = [case for case in admission_cases.load_all() if case.rule.by is EnforcedBy.POLICY]


@pytest.fixture(scope="module")
def with_policies(cluster, eventually):
    """The cluster with the policies, which are enforced a moment after they are created."""
    cluster.kubectl("apply", "--server-side", "-f", FILE)
    eventually(lambda: all(_types_checked(cluster)))
    # That of the last policy: the server then enforces those that were created before it, too.
    [last] = policies.manifests()[-2]["spec"]["matchConstraints"]["resourceRules"]
    case = next(each for each in CASES if each.obj["apiVersion"].split("/")[0] in last["apiGroups"])
    assert not case.rule.is_error
    eventually(lambda: case.says in _dry_run(cluster, case.obj))
    yield cluster
    cluster.kubectl("delete", "-f", FILE)


def _types_checked(cluster):
    found = cluster.get("validatingadmissionpolicies")["items"]
    return ["typeChecking" in each.get("status", {}) for each in found]


def _dry_run(cluster, obj, *, fails=False):
    made = copy.deepcopy(obj)
    made["metadata"]["name"] = f"c-{uuid.uuid4().hex[:10]}"
    words = ["create", "--dry-run=server", "-n", "default", "-f", "-"]
    return cluster.kubectl(*words, text=json.dumps(made), fails=fails)


def test_the_types_of_expressions_are_right(with_policies):
    """The API server checks them against the definitions, and would list the errors."""
    found = with_policies.get("validatingadmissionpolicies")["items"]
    assert len(found) == len(policies.manifests()) / 2
    assert [each["status"]["typeChecking"] for each in found] == [{} for _ in found]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rule_is_enforced(with_policies, case):
    """An error rejects the object; kubectl prints a warning, and the object is accepted."""
    told = _dry_run(with_policies, case.obj, fails=case.rule.is_error)
    assert case.says in told
    assert ("Warning: " in told) or case.rule.is_error


@pytest.mark.parametrize("base", admission_cases.bases(), ids=lambda base: base.obj["kind"])
def test_a_valid_object_has_no_warnings(with_policies, base):
    told = [line for line in _dry_run(with_policies, base.obj).splitlines() if line.startswith("Warning: ")]
    assert told == []


def test_a_change_of_labels_is_not_checked(with_policies, namespace):
    """As in the embedded server: only writes that change more than metadata and status."""
    obj = copy.deepcopy(admission_cases.base("VariantAutoscaling").obj)
    obj["spec"]["variantID"] = "other-A100-1"
    words = ["-n", namespace]
    assert "Warning: " in with_policies.kubectl("create", *words, "-f", "-", text=json.dumps(obj))
    name = f"variantautoscaling/{obj['metadata']['name']}"
    assert "Warning: " not in with_policies.kubectl("label", *words, name, "a=b")


def test_the_policies_have_exactly_the_rules_of_the_inventory():
    """A rule that says that a policy enforces it is in one, and no other is."""
    listed = {
        (rule.kind, rule.name, rule.is_error) for rule in enforcement.RULES if rule.by is EnforcedBy.POLICY
    }
    made = {
        (kind, check.name, check.is_error)
        for (_, kind), checks in policy_checks.CHECKS.items()
        for check in checks
    }
    assert made == listed
