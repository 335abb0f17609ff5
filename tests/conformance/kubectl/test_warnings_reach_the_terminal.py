"""What admission warns of is printed by kubectl, and the object is stored all the same."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.kubectl, pytest.mark.embedded]


def test_every_version_prints_warnings(every_kubectl: Any, model_route: Any, model_server: Any) -> None:
    """A target that is missing, a rule that never matches, and a limit of nothing; then all is well."""
    name = every_kubectl.namespace  # model names have no namespace, and servers of other ones are pointed at
    model_route["spec"]["modelName"] = model_server["metadata"]["name"] = name
    target = {"targetModels": [{"modelServerName": name}]}
    model_route["spec"]["rules"][0] |= target
    model_route["spec"]["rules"].append({"modelMatch": {"uri": {"prefix": "/v1"}}} | target)
    model_route["spec"]["rateLimit"] = {"unit": "minute"}
    applied = every_kubectl.run("apply", "-f", "-", stdin=model_route)
    assert (applied.code, applied.out) == (0, "modelroute.networking.volcano.sh/chat created\n")
    missing = "there is no ModelServer NAMESPACE/NAMESPACE; requests for it fail until there is"
    assert applied.err.splitlines() == [
        f"Warning: spec.rules[0].targetModels[0].modelServerName: {missing}",
        f"Warning: spec.rules[1].targetModels[0].modelServerName: {missing}",
        'Warning: spec.rules[1]: can never match: rules[0] ("all") comes first and matches every request',
        "Warning: spec.rateLimit: limits nothing: set inputTokensPerUnit or outputTokensPerUnit",
    ]
    every_kubectl("apply", "-f", "-", stdin=model_server)
    model_route["spec"]["rules"].pop()
    model_route["spec"]["rateLimit"]["inputTokensPerUnit"] = 100
    configured = "modelroute.networking.volcano.sh/chat configured\n"
    assert every_kubectl("apply", "-f", "-", stdin=model_route) == configured


def test_refusals_list_everything(kubectl: Any, deployment: Any) -> None:
    """kubectl prints each error of a Deployment on a line of its own."""
    deployment["spec"]["replicas"] = -1
    deployment["spec"]["selector"]["matchLabels"] = {"app": "other"}
    assert kubectl.refused("apply", "-f", "-", stdin=deployment).splitlines() == [
        'The Deployment "chat" is invalid: ',
        "* spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        '* spec.template.metadata.labels: Invalid value: {"app":"chat"}: `selector` does not match template '
        "`labels`",
    ]
