"""The workloads of a backend: a Deployment for each worker, or a LeaderWorkerSet if it has several Pods."""

from __future__ import annotations

from typing import Any, Final

from headgate import api
from headgate.controllers.model import names, pods
from headgate.controllers.model.backends import Backend, Worker
from headgate.controllers.model.scope import Child, Scope

_PROGRESS_S: Final = 7200
"""Downloads of the largest models take long, and are no failure of a rollout."""


def of_backend(scope: Scope, backend: Backend) -> list[Child]:
    """The workloads of the backend."""
    return [_workload(scope, backend, worker) for worker in backend.workers]


def _workload(scope: Scope, backend: Backend, worker: Worker) -> Child:
    own = {names.WORKLOAD: names.shortened(worker.name, names.LONGEST_LABEL)}
    labels = {
        **names.labels(scope.model, backend.spec.name),
        **own,
        names.ROLE: worker.role,
        **({names.PD_GROUP: _group(backend)} if backend.is_disaggregated else {}),
        **({names.DECODES: "true"} if worker.role in ("server", "decode") else {}),
    }
    entry = {names.ENTRY: "true"} if worker.launch.takes_requests else {}
    template = pods.template(scope, backend, worker, {**labels, **entry})
    spec: dict[str, Any] = {}
    if worker.name not in scope.observed.scaled:
        spec["replicas"] = backend.replicas(worker, scope.observed.scaled)
    if worker.in_groups:
        followers = pods.template(scope, backend, worker, labels, follower=True)
        spec |= _groups(worker, template, followers)
        return scope.child(api.LeaderWorkerSet, worker.name, spec, backend.spec.name)
    spec |= {
        "selector": {"matchLabels": {names.MODEL_UID: scope.model.metadata.uid, **own}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "25%"}},
        "progressDeadlineSeconds": _PROGRESS_S,
        "template": template,
    }
    return scope.child(api.Deployment, worker.name, spec, backend.spec.name)


def _group(backend: Backend) -> str:
    """The value by which Pods pair up: Pods of former weights, or with another connector, must not exchange
    KV caches with new ones."""
    connectors = sorted({worker.launch.connector for worker in backend.workers})
    shared = names.digest("\0".join([backend.spec.model_uri, *connectors]))
    room = names.LONGEST_LABEL - len(shared) - 1
    return f"{names.shortened(backend.server, room)}-{shared}"


def _groups(worker: Worker, leader: dict[str, Any], follower: dict[str, Any]) -> dict[str, Any]:
    """A new group comes up before an old one goes, like the Pods of a Deployment."""
    rolling = {"maxUnavailable": 0, "maxSurge": "25%"}
    return {
        "leaderWorkerTemplate": {
            "size": worker.spec.pods,
            "leaderTemplate": leader,
            "workerTemplate": follower,
            "restartPolicy": "RecreateGroupOnPodRestart",
        },
        "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": rolling},
        "startupPolicy": "LeaderCreated",
    }
