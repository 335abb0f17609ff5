"""`headgate autoscale replay` shows what a policy would do with a trace."""

import json
import random

import pytest
from click.testing import CliRunner

from headgate.cli import main

POLICY = """\
apiVersion: registry.volcano.sh/v1alpha1
kind: AutoscalingPolicy
metadata: {name: by-work}
spec:
  metrics:
    - {metricName: "headgate:work_seconds", targetValue: "0.8"}
"""
BINDING = """\
---
apiVersion: registry.volcano.sh/v1alpha1
kind: AutoscalingPolicyBinding
metadata: {name: sim-8b}
spec:
  policyRef: {name: by-work}
  scalingConfiguration:
    target: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: sim-8b}}
    minReplicas: 2
    maxReplicas: 3
"""


@pytest.fixture
def trace(tmp_path):
    rng = random.Random(1)
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for second in range(240):
        for _ in range(2 if second < 100 else 9):
            fraction = rng.randrange(10**7)
            lines.append(
                f"2023-11-16 18:{second // 60:02d}:{second % 60:02d}.{fraction:07d},"
                f"{rng.randint(50, 1500)},{rng.randint(5, 300)}"
            )
    path = tmp_path / "trace.csv"
    path.write_text("\n".join([lines[0], *sorted(lines[1:])]) + "\n")
    return path


@pytest.fixture
def policy(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


def run(*arguments):
    return CliRunner().invoke(main, ["autoscale", "replay", *map(str, arguments)])


def test_text_shows_replicas_and_slo(policy, trace):
    """A summary, and replicas over time that rise with the load."""
    ran = run(policy, "--trace", trace, "--cold-start", "20s")
    assert ran.exit_code == 0, ran.output
    assert "1 to 100 replicas that start in 20 s" in ran.output
    assert "of requests are in time" in ran.output
    rows = [line.split() for line in ran.output.splitlines() if line.strip().startswith("0:0")]
    assert len(rows) == 24
    assert float(rows[-1][4]) > float(rows[0][4])


def test_json_has_the_same(policy, trace):
    ran = run(policy, "--trace", trace, "--output", "json")
    shown = json.loads(ran.output)
    assert shown["policy"] == "by-work"
    assert shown["requests"] == 2 * 100 + 9 * 140
    assert 0 < shown["attainment"] <= 1
    assert max(window["replicas"] for window in shown["windows"]) > 3


def test_the_binding_sets_the_bounds(tmp_path, trace):
    """Unless the command line does."""
    path = tmp_path / "both.yaml"
    path.write_text(POLICY + BINDING)
    shown = json.loads(run(path, "--trace", trace, "-o", "json").output)
    assert {round(window["desired"]) for window in shown["windows"]} <= {2, 3}
    assert shown["rules"]["Maximum"] > 0
    shown = json.loads(run(path, "--trace", trace, "--max", 2, "-o", "json").output)
    assert {window["desired"] for window in shown["windows"]} == {2.0}


def test_names_of_engines_are_understood(policy, trace):
    """As in a controller, which translates them: a policy for Pods needs no other names to be tried."""
    shown = []
    for name in ("vllm:num_requests_running", "kthena:num_requests_running"):
        policy.write_text(POLICY.replace("headgate:work_seconds", name).replace("0.8", "8"))
        ran = run(policy, "--trace", trace, "-o", "json")
        assert ran.exit_code == 0, ran.output
        shown.append(json.loads(ran.output)["windows"])
    assert shown[0] == shown[1]
    assert max(window["replicas"] for window in shown[0]) > 1


def test_a_picture_is_drawn(policy, trace, tmp_path):
    pytest.importorskip("matplotlib")
    file = tmp_path / "replay.png"
    ran = run(policy, "--trace", trace, "--png", file)
    assert ran.exit_code == 0, ran.output
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("text", "options", "error"),
    [
        (
            POLICY.replace("headgate:work_seconds", "gpu"),
            (),
            "a replay has no metric 'gpu'; it has",
        ),
        (POLICY, ("--name", "other"), "has no AutoscalingPolicy 'other'; it has by-work"),
        (BINDING, (), "has no AutoscalingPolicy"),
        (POLICY + "---\n" + POLICY.replace("by-work", "b"), (), "has 2 AutoscalingPolicies"),
        (POLICY, ("--min", "5", "--max", "4"), "--min: 5 is more than the maximum, 4"),
        (POLICY, ("--profile", "h200"), "unknown profile 'h200'; there are 7b-a100"),
        (POLICY, ("--begin-with", "101"), "--begin-with: must be 1 to 100, got 101"),
        (POLICY, ("--cold-start", "soon"), "'soon' is not a time such as 30s"),
        (POLICY.replace("targetValue", "target"), (), "policy.yaml:1: Object missing required field"),
    ],
)
def test_what_is_wrong_is_named(policy, trace, text, options, error):
    policy.write_text(text)
    ran = run(policy, "--trace", trace, *options)
    assert ran.exit_code in (1, 2)
    assert error in " ".join(ran.output.split())
