"""The workloads of a backend: a Deployment for each worker."""

from __future__ import annotations

from headgate import api
from headgate.api.kthena_registry import ModelBackend
from headgate.controllers.model import names, pods, volumes
from headgate.controllers.model.scope import Child, Scope
from headgate.engines import known
from headgate.engines.launch import Setup


def of_backend(scope: Scope, index: int, backend: ModelBackend) -> list[Child]:
    """The workloads of the backend with this index."""
    name = names.shortened(f"{scope.model.metadata.name}-{backend.name}", names.LONGEST_DEPLOYMENT)
    worker = backend.workers[0]
    launcher = known.launcher(backend.type)
    setup = Setup(
        weights=volumes.directory(volumes.cache(backend).path, backend.model_uri),
        names=tuple(dict.fromkeys([names.served(scope.model), names.public(scope.model)])),
        config=worker.config or {},
    )
    launch = launcher.launch(setup)
    for problem in launch.problems:
        scope.report(f"spec.backends[{index}].workers[0].config.{problem.key}", problem.message)
    own = {names.WORKLOAD: names.shortened(name, names.LONGEST_LABEL)}
    labels = {**names.labels(scope.model, backend.name), **own, names.ENTRY: "true"}
    template = pods.template(scope, backend, worker, launcher, launch, labels)
    replicas = {} if name in scope.observed.scaled else {"replicas": backend.min_replicas}
    spec = {
        **replicas,
        "selector": {"matchLabels": {names.MODEL_UID: scope.model.metadata.uid, **own}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "25%"}},
        "template": template,
    }
    return [scope.child(api.Deployment, name, spec, backend.name)]
