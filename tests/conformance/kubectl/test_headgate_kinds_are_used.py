"""Headgate's own kinds by kubectl: names, columns, and refusals with every error."""

from __future__ import annotations

import copy
from typing import Any

import pytest

pytestmark = pytest.mark.kubectl

GROUP = "networking.volcano.sh"


def test_they_are_applied_listed_and_deleted(kubectl: Any, model_route: Any, model_server: Any) -> None:
    """By any of their names; the tables lead with what they are about."""
    both = [model_server, model_route]
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


def test_what_is_wrong_with_them_is_told(kubectl: Any, model_route: Any) -> None:
    """Unknown fields first; then every value that is out of bounds, with its path."""
    unknown = copy.deepcopy(model_route)
    unknown["spec"]["modelNam"] = "x"
    refused = kubectl.refused("apply", "-f", "-", stdin=unknown)
    assert refused.endswith('strict decoding error: unknown field "spec.modelNam"\n')
    model_route["spec"]["rules"][0]["targetModels"][0]["weight"] = 101
    model_route["spec"]["rateLimit"] = {"unit": "fortnight", "inputTokensPerUnit": 1}
    lines = kubectl.refused("apply", "-f", "-", stdin=model_route).splitlines()
    assert lines[0] == 'The ModelRoute "chat" is invalid: '
    for begin in (
        "* spec.rules[0].targetModels[0].weight: Invalid value: 101: ",
        '* spec.rateLimit.unit: Unsupported value: "fortnight": supported values: ',
    ):
        assert any(line.startswith(begin) for line in lines), (begin, lines)
