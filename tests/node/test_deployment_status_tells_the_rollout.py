"""What `kubectl rollout` reads: conditions of a Deployment through a rollout, in virtual time."""

from typing import Any

import msgspec

from headgate import api
from headgate.node import deployment_status, workloads
from headgate.node.deployment_plan import Wish
from headgate.node.replicasets import victims
from headgate.node.workloads import Counts, count


def deployment(status: dict[str, Any] | None = None) -> workloads.Deployment:
    spec = {"selector": {}, "template": {}, "replicas": 2, "progressDeadlineSeconds": 60}
    return msgspec.convert(
        {"metadata": {"name": "web", "generation": 4}, "spec": spec, "status": status or {}},
        workloads.Deployment,
    )


def seen(updated: int, replicas: int, available: int, **more: Any) -> deployment_status.Rollout:
    counts = Counts(replicas, available, available)
    return deployment_status.Rollout(Wish(2, 1, 0, **more), counts, updated, "web-abc")


def progressing(status: dict[str, Any]) -> tuple[str, str]:
    [condition] = [each for each in status["conditions"] if each["type"] == "Progressing"]
    return condition["status"], condition["reason"]


def test_a_rollout_progresses_completes_and_stays_complete():
    """Each step counts as progress, the end is said once, and later scaling doesn't take it back."""
    step = deployment_status.status(deployment(), seen(0, 2, 2), 1000.0)
    assert progressing(step) == ("True", "ReplicaSetUpdated")
    step = deployment_status.status(deployment(step), seen(2, 2, 2), 1010.0)
    assert progressing(step) == ("True", "NewReplicaSetAvailable")
    assert step["observedGeneration"] == 4
    again = deployment_status.status(deployment(step), seen(1, 1, 1), 1020.0)
    assert progressing(again) == ("True", "NewReplicaSetAvailable")
    assert deployment_status.deadline_in_s(deployment(again), 1e9) is None


def test_a_rollout_that_hangs_runs_into_its_deadline():
    """Without progress for progressDeadlineSeconds a rollout has failed, and says so until it moves."""
    step = deployment_status.status(deployment(), seen(1, 3, 2), 1000.0)
    assert deployment_status.deadline_in_s(deployment(step), 1020.0) == 40.0
    step = deployment_status.status(deployment(step), seen(1, 3, 2), 1061.0)
    assert progressing(step) == ("False", "ProgressDeadlineExceeded")
    same = deployment_status.status(deployment(step), seen(1, 3, 2), 2000.0)
    assert same == step
    moved = deployment_status.status(deployment(step), seen(2, 3, 3), 2001.0)
    assert progressing(moved) == ("True", "ReplicaSetUpdated")


def test_pausing_stops_the_clock():
    """A paused rollout is neither good nor failed; saying so twice changes nothing."""
    step = deployment_status.status(deployment(), seen(1, 3, 2, paused=True), 1000.0)
    assert progressing(step) == ("Unknown", "DeploymentPaused")
    assert deployment_status.status(deployment(step), seen(1, 3, 2, paused=True), 3000.0) == step
    resumed = deployment_status.status(deployment(step), seen(1, 3, 2), 3000.0)
    assert progressing(resumed) == ("Unknown", "DeploymentResumed")


def test_too_few_pods_are_said_at_once():
    """Available is False from the moment that fewer than the floor are available."""
    step = deployment_status.status(deployment(), seen(2, 2, 1), 1000.0)
    [condition] = [each for each in step["conditions"] if each["type"] == "Available"]
    assert (condition["status"], condition["reason"]) == ("False", "MinimumReplicasUnavailable")


def pod(name: str, ready: bool, created: str = "2026-01-01T00:00:00Z", **annotations: str) -> api.Pod:
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-01-01T00:01:00Z"}
    metadata = {"name": name, "creationTimestamp": created, "annotations": annotations}
    return msgspec.convert({"metadata": metadata, "status": {"conditions": [condition]}}, api.Pod)


def test_a_pod_is_available_after_being_ready_long_enough():
    """minReadySeconds counts from the time in the Ready condition, and the rest of it is told."""
    ready_since = 1767225660.0
    pods = [pod("a", True), pod("b", False)]
    assert count(pods, 0, ready_since) == Counts(2, 1, 1)
    assert count(pods, 10, ready_since + 4) == Counts(2, 1, 0, 6.0)
    assert count(pods, 10, ready_since + 10) == Counts(2, 1, 1)


def test_unready_then_young_pods_go_first():
    """What serves stays longest; among equals the oldest stays, unless a deletion cost says otherwise."""
    old, young = pod("old", True), pod("young", True, "2026-01-02T00:00:00Z")
    broken = pod("broken", False, "2025-01-01T00:00:00Z")
    dear = pod("dear", True, "2026-01-03T00:00:00Z", **{"controller.kubernetes.io/pod-deletion-cost": "5"})
    order = [each.metadata.name for each in victims([old, dear, broken, young], 4)]
    assert order == ["broken", "young", "old", "dear"]
    assert victims([old], 0) == ()


def test_the_same_template_has_the_same_hash():
    """Nulls, empty objects and the hash label itself make no new revision; a changed value does."""
    written = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c"}]}}
    hashed = workloads.content_hash(written)
    from_kubectl = {
        "metadata": {"creationTimestamp": None, "labels": {"app": "x", "pod-template-hash": hashed}},
        "spec": {"containers": [{"name": "c", "resources": {}}]},
    }
    assert workloads.content_hash(from_kubectl) == hashed
    assert workloads.content_hash({**written, "spec": {"containers": [{"name": "d"}]}}) != hashed
    assert workloads.with_hash(written, hashed)["metadata"]["labels"]["pod-template-hash"] == hashed
