"""What a user does first, with each supported kubectl."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.kubectl


def test_apply_get_scale_explain_delete(
    every_kubectl: Any, model_route: Any, model_server: Any, deployment: Any, pod: Any
) -> None:
    """The walk from the first apply to the last delete works on our kinds and on Kubernetes' own."""
    kubectl = every_kubectl
    everything = [model_route, model_server, deployment, pod]
    assert kubectl("apply", "-f", "-", stdin=everything).splitlines() == [
        "modelroute.networking.volcano.sh/chat created",
        "modelserver.networking.volcano.sh/chat created",
        "deployment.apps/chat created",
        "pod/one created",
    ]
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=[model_route])
    model_route["spec"]["rules"][0]["targetModels"][0]["weight"] = 40
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "sim:2"
    changed = kubectl("apply", "-f", "-", stdin=[model_route, deployment])
    assert changed.count("configured") == 2
    shown = kubectl("get", "modelroutes,modelservers,deploy,po")
    for heading in ("MODEL ", "ENGINE ", "UP-TO-DATE ", "RESTARTS "):
        assert heading in shown
    assert kubectl("scale", "deployment", "chat", "--replicas=4") == "deployment.apps/chat scaled\n"
    stored = kubectl.get("deploy", "chat")
    assert stored["spec"]["replicas"] == 4
    assert stored["spec"]["template"]["spec"]["containers"][0]["image"] == "sim:2"
    assert stored["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]
    assert "modelServerName\t<string>" in kubectl("explain", "modelroute.spec.rules.targetModels")
    assert "Kind:         ModelRoute" in kubectl("describe", "modelroute", "chat")
    assert "labeled" in kubectl("label", "modelserver", "chat", "tier=gold")
    assert kubectl("get", "ms", "-l", "tier=gold", "-o", "name") == "modelserver.networking.volcano.sh/chat\n"
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", stdin=model_server)
    deleted = kubectl("delete", "-f", "-", "--wait", stdin=everything)
    assert deleted.count("deleted") == 4
    assert kubectl("get", "mr,ms,deploy,po", "-o", "name") == ""


def test_watching_and_waiting(every_kubectl: Any, model_route: Any) -> None:
    """`get -w` prints each change as a row; `wait` ends when the condition comes."""
    kubectl = every_kubectl
    kubectl("apply", "-f", "-", stdin=model_route)
    watching = kubectl.start("get", "modelroutes", "-w")
    assert watching.stdout.readline().split() == ["NAME", "MODEL", "READY", "AGE"]
    assert watching.stdout.readline().split()[:2] == ["chat", "chat"]
    waiting = kubectl.start("wait", "modelroute/chat", "--for=condition=Ready", "--timeout=10s")
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "R",
        "message": "",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = json.dumps({"status": {"conditions": [condition]}})
    kubectl("patch", "modelroute", "chat", "--subresource=status", "--type=merge", "-p", status)
    assert watching.stdout.readline().split()[:3] == ["chat", "chat", "True"]
    assert waiting.stdout.read() == "modelroute.networking.volcano.sh/chat condition met\n"
    assert waiting.wait(5) == 0
