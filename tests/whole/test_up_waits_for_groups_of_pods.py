"""`headgate up` is up once LeaderWorkerSets are ready, as it is for Deployments."""

import json

import pytest

pytestmark = pytest.mark.whole

SLOW = "sleep 2; touch /tmp/ready; exec sleep 600"


def test_every_pod_of_a_group_is_ready(new_machine, tmp_path):
    container = {
        "name": "main",
        "image": "none",
        "command": ["sh", "-c", SLOW],
        "readinessProbe": {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    spec = {
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    groups = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "ring"},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": spec}}},
    }
    (tmp_path / "groups.yaml").write_text(json.dumps(groups))
    machine = new_machine(tmp_path / "groups.yaml").start()
    assert "workloads: 2 of 2 Pods available" in machine.output
    pods = json.loads(machine.kubectl("get", "pods", "-o", "json"))["items"]
    ready = {
        each["metadata"]["name"]: condition["status"]
        for each in pods
        for condition in each["status"]["conditions"]
        if condition["type"] == "Ready"
    }
    assert ready == {"ring-0": "True", "ring-0-1": "True"}
