"""In `headgate up`, engines come and go with what the gateway knows of their work."""

import json
import subprocess
import sys

SCALE_DOWN = {"instances": 6, "percent": 100, "period": "1s", "stabilizationWindow": "5s"}
AT_ONCE = {"spec": {"behavior": {"scaleDown": SCALE_DOWN}}}
"""A policy whose engines go as soon as their work has gone; the example's would wait more than a minute."""


def explained(machine, binding: str, *flags: str) -> str:
    command = [sys.executable, "-m", "headgate", "autoscale", "explain", binding, *flags]
    done = subprocess.run(
        [*command, "--kubeconfig", machine.state / "kubeconfig"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_more_requests_get_more_engines(scaled, status, replicas, load, eventually):
    """24 requests at a time are too many for one engine; no request fails while engines come and go."""
    eventually(lambda: status("sim-8b").get("desiredReplicas") == 1)
    with load(24):
        eventually(lambda: replicas("sim-8b") >= 3, 120)
        eventually(lambda: len(scaled.endpoints()) >= 3, 120)
        said = explained(scaled, "sim-8b")
        assert "headgate:requests_in_flight *" in said
        assert "Deployment default/sim-8b" in said
        found = json.loads(explained(scaled, "sim-8b", "-o", "json"))
        assert found["metricName"] == "headgate:requests_in_flight"
        assert found["desiredReplicas"] >= 3
        eventually(lambda: status("sim-8b")["targets"][0]["readyReplicas"] >= 3, 120)
    events = scaled.kubectl("get", "events", "--field-selector", "involvedObject.name=sim-8b")
    assert "ScalingUp" in events
    scaled.kubectl("patch", "asp", "by-work", "--type=merge", "-p", json.dumps(AT_ONCE))
    eventually(lambda: replicas("sim-8b") == 1, 240)


def test_a_model_at_zero_answers_its_first_request(scaled, status, replicas, eventually):
    """It waits for the first engine, is served, and the engine goes when no more requests come."""
    eventually(lambda: status("sim-rare").get("desiredReplicas") == 0)
    eventually(lambda: replicas("sim-rare") == 0)
    eventually(lambda: "scale-from-zero" in scaled.kubectl("get", "modelserver", "sim-rare", "-o", "json"))
    answer = scaled.ask("sim-rare", tokens=3)
    assert answer.status_code == 200
    assert answer.json()["usage"]["completion_tokens"] == 3
    assert replicas("sim-rare") == 1
    scaled.kubectl(
        "annotate", "aspb", "sim-rare", "headgate.dev/scale-to-zero-grace-period=3s", "--overwrite"
    )
    eventually(lambda: replicas("sim-rare") == 0, 240)
    eventually(lambda: scaled.endpoints("default/sim-rare") == [])
    assert scaled.ask("sim-rare", tokens=3).status_code == 200
