"""ValidatingAdmissionPolicies: what an API server can check of one object, but not by its definition.

Warnings, which a definition cannot give, and errors whose cost an API server would estimate as too high for a
definition. The embedded API server applies the same rules itself (`api/admission`) and executes no policies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from headgate.api.definitions import custom_resources
from headgate.api.meta import Resource
from headgate.api.policy_checks import CHECKS, VARIABLES, Check

__all__ = ["PREFIX", "manifests"]

PREFIX: Final = "headgate-"
"""Names begin with it; the chart replaces it by the name of the release."""

_CHANGED: Final = {
    "name": "changes-more-than-metadata",
    "expression": "request.operation == 'CREATE' || object.spec != oldObject.spec",
}


class _Policy(NamedTuple):
    resource: Resource
    is_error: bool
    checks: tuple[Check, ...]

    @property
    def name(self) -> str:
        return f"{PREFIX}{'errors' if self.is_error else 'warnings'}-{self.resource.qualified_name}"


def manifests() -> list[dict[str, Any]]:
    """Each policy, followed by its binding."""
    return [made for policy in _policies() for made in (_policy(policy), _binding(policy))]


def _policies() -> Iterator[_Policy]:
    for resource in custom_resources():
        for is_error in (True, False):
            checks = CHECKS.get((resource.group, resource.kind), ())
            chosen = tuple(check for check in checks if check.is_error == is_error)
            if chosen:
                yield _Policy(resource, is_error, chosen)


def _policy(policy: _Policy) -> dict[str, Any]:
    resource, checks = policy.resource, policy.checks
    rule = {
        "apiGroups": [resource.group],
        "apiVersions": [resource.version],
        "operations": ["CREATE", "UPDATE"],
        "resources": [resource.plural],
    }
    used = [
        {"name": name, "expression": expression}
        for name, expression in VARIABLES.get(resource.kind, {}).items()
        if any(f"variables.{name}" in f"{each.holds} {each.told}" for each in checks)
    ]
    spec: dict[str, Any] = {
        # A warning is not worth a rejected write.
        "failurePolicy": "Fail" if policy.is_error else "Ignore",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [_CHANGED],
    }
    if used:
        spec["variables"] = used
    spec["validations"] = [_validation(check) for check in checks]
    return _object("ValidatingAdmissionPolicy", policy.name, spec)


def _validation(check: Check) -> dict[str, str]:
    made = {"expression": check.holds, "message": check.message}
    return made | ({"messageExpression": check.told} if check.told else {})


def _binding(policy: _Policy) -> dict[str, Any]:
    spec = {"policyName": policy.name, "validationActions": ["Deny" if policy.is_error else "Warn"]}
    return _object("ValidatingAdmissionPolicyBinding", policy.name, spec)


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }
