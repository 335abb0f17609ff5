"""The expressions of one ModelRoute never cost an API server seconds of CPU time."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest
from running import running

PATH = "/apis/networking.volcano.sh/v1alpha1/namespaces/default/modelroutes"
TIMES = 5
LIMIT_S = 5.0
"""Of TIMES objects: they take about 0.3 s, and minutes if the server compiled all expressions."""


@pytest.mark.parametrize(
    ("piece", "length"),
    [
        ("(a{1000})", 128),
        (r"(?i:[b-\x{1e942}])", 128),
        (r"(?i)\W", 128),
        ("^a?", 128),
        (r"\pL", 4096),
        (r"(?i:[b-\x{1e942}])", 4096),
    ],
)
def test_the_largest_route_with_an_expression(cluster, piece, length):
    """As many rules, headers and characters as the definition allows."""
    expression = piece * (length // len(piece))
    matches = {
        "uri": {"regex": expression},
        "headers": {f"h{number}": {"regex": expression} for number in range(16)},
    }
    route = {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelRoute",
        "metadata": {"name": f"route-{uuid.uuid4().hex[:10]}"},
        "spec": {
            "modelName": "m",
            "rules": [{"modelMatch": matches, "targetModels": [{"modelServerName": "s"}]}] * 16,
        },
    }
    server = running(cluster.state)["kube-apiserver"].pid
    with cluster.client() as client:
        before = _cpu_s(server)
        for _ in range(TIMES):
            response = client.post(PATH, json=route, params={"dryRun": "All"})
            assert response.status_code == 201, response.text
        assert _cpu_s(server) - before < LIMIT_S


def _cpu_s(pid: int) -> float:
    """CPU time of a process so far: fields 14 and 15 of proc(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
