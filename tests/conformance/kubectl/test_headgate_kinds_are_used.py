"""Headgate's own kinds by kubectl: names, columns, and refusals with every error."""

from __future__ import annotations

import copy
from typing import Any

import pytest

pytestmark = pytest.mark.kubectl

GROUP = "networking.volcano.sh"


@pytest.fixture
def route() -> Any:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "ModelRoute",
        "metadata": {"name": "chat"},
        "spec": {
            "modelName": "chat",
            "rules": [{"name": "all", "targetModels": [{"modelServerName": "chat", "weight": 60}]}],
        },
    }


@pytest.fixture
def server_of_models() -> Any:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "ModelServer",
        "metadata": {"name": "chat"},
        "spec": {
            "inferenceEngine": "vLLM",
            "model": "m",
            "workloadSelector": {"matchLabels": {"app": "chat"}},
            "workloadPort": {"port": 8000},
        },
    }


def test_they_are_applied_listed_and_deleted(kubectl: Any, route: Any, server_of_models: Any) -> None:
    """By any of their names; the tables lead with what they are about."""
    both = [server_of_models, route]
    assert kubectl("apply", "-f", "-", stdin=both).splitlines() == [
        f"modelserver.{GROUP}/chat created",
        f"modelroute.{GROUP}/chat created",
    ]
    for name in ("modelroutes", "modelroute", "mr", "ModelRoute", f"modelroutes.v1alpha1.{GROUP}"):
        assert kubectl("get", name, "-o", "name") == f"modelroute.{GROUP}/chat\n"
    for name, heading in (("modelroutes", "MODEL"), ("modelservers", "ENGINE")):
        columns, row = kubectl("get", name).splitlines()
        assert columns.split()[:2] == ["NAME", heading]
        assert columns.split()[-1] == "AGE"
        assert row.split()[0] == "chat"
    assert set(kubectl("get", "headgate", "-o", "name").splitlines()) == {
        f"modelserver.{GROUP}/chat",
        f"modelroute.{GROUP}/chat",
    }
    assert "modelServerName\t<string>" in kubectl("explain", "modelroute.spec.rules.targetModels")
    assert kubectl("delete", "-f", "-", stdin=both).count("deleted") == 2


def test_what_is_wrong_with_them_is_told(kubectl: Any, route: Any) -> None:
    """Unknown fields first; then every value that is out of bounds, with its path."""
    unknown = copy.deepcopy(route)
    unknown["spec"]["modelNam"] = "x"
    refused = kubectl.refused("apply", "-f", "-", stdin=unknown)
    assert refused.endswith('strict decoding error: unknown field "spec.modelNam"\n')
    route["spec"]["rules"][0]["targetModels"][0]["weight"] = 101
    route["spec"]["rateLimit"] = {"unit": "fortnight", "inputTokensPerUnit": 1}
    lines = kubectl.refused("apply", "-f", "-", stdin=route).splitlines()
    assert lines[0] == 'The ModelRoute "chat" is invalid: '
    for begin in (
        "* spec.rules[0].targetModels[0].weight: Invalid value: 101: ",
        '* spec.rateLimit.unit: Unsupported value: "fortnight": supported values: ',
    ):
        assert any(line.startswith(begin) for line in lines), (begin, lines)
