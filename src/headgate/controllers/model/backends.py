"""What a backend amounts to: its workers with their names, engines and numbers, before objects are made.

A backend that cannot run as it is written has no plan; the reasons are reported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate import api
from headgate.api.kthena_registry import LoraAdapter, ModelBackend, ModelWorker
from headgate.controllers.model import names, volumes
from headgate.controllers.model.scope import Scope
from headgate.controllers.model.settings import InvalidVariableError, RuntimeSettings, runtime_settings
from headgate.controllers.model.volumes import InvalidSourceError, Storage
from headgate.engines import known, mindie, vllm_transfer
from headgate.engines.flags import Config
from headgate.engines.launch import Adapters, Launch, Launcher, Role, Setup
from headgate.kubeschema import quantity

DISAGGREGATED = ("vLLMDisaggregated", "MindIEDisaggregated")
_NEEDED: Mapping[str, tuple[Role, ...]] = {
    "vLLMDisaggregated": ("prefill", "decode"),
    "MindIEDisaggregated": ("prefill", "decode", "controller", "coordinator"),
}
_ALWAYS_ALONE = ("controller", "coordinator")
"""Workers whose number does not depend on the replicas of the backend."""
_ACCELERATORS = ("/gpu", "/tpu", "/neuroncore", "/gaudi", "huawei.com/", "gpu.intel.com/", "/mig-")
_MOST_ACCELERATORS = 1024


@dataclass(frozen=True)
class Worker:
    """A worker, and the workload that runs it."""

    name: str
    """Name of the workload."""
    place: str
    """Path of its field in the Model."""
    spec: ModelWorker
    launch: Launch

    @property
    def role(self) -> Role:
        return self.spec.type

    @property
    def in_groups(self) -> bool:
        """Whether each replica has several Pods."""
        return (self.spec.pods or 1) > 1

    @property
    def share(self) -> int:
        """Workers in one replica of the backend."""
        return 1 if self.spec.replicas is None else self.spec.replicas


@dataclass(frozen=True)
class Backend:
    """A backend that can run."""

    index: int
    spec: ModelBackend
    server: str
    """Name of its ModelServer."""
    launcher: Launcher
    storage: Storage
    runtime: RuntimeSettings
    workers: tuple[Worker, ...]
    adapters: tuple[LoraAdapter, ...]
    """The adapters that it can serve."""
    loading: Adapters

    @property
    def is_disaggregated(self) -> bool:
        return self.spec.type in DISAGGREGATED

    @property
    def carrier(self) -> Worker:
        """The worker whose replicas are scaled; the others follow in proportion."""
        return next((w for w in self.workers if w.role == "decode"), self.workers[0])

    def replicas(self, worker: Worker, scaled: Mapping[str, int]) -> int:
        """How many replicas the workload should have."""
        carrier = self.carrier
        wanted = float(self.spec.min_replicas)
        if carrier.name in scaled:
            wanted = scaled[carrier.name] / max(carrier.share, 1)
        if worker.role in _ALWAYS_ALONE:
            return worker.share if wanted else 0
        return math.ceil(wanted * worker.share)

    def is_ready(self, ready: Mapping[str, int]) -> bool:
        """Whether each worker that a request needs has a ready replica."""
        needed = [worker for worker in self.workers if worker.share]
        return bool(needed) and all(ready.get(worker.name, 0) > 0 for worker in needed)


def plan(scope: Scope, index: int, taken: set[str]) -> Backend | None:
    """The plan of the backend with this index; None if it cannot run. `taken` are names of workloads."""
    spec = scope.model.spec.backends[index]
    place = f"spec.backends[{index}]"
    before = len(scope.problems)
    try:
        stored = volumes.storage(spec, scope.settings.host_path_roots)
        runtime = runtime_settings(spec.env)
    except InvalidSourceError as error:
        scope.report(f"{place}.{error.field}", str(error))
        return None
    except InvalidVariableError as error:
        scope.report(f"{place}.env[{error.index}]", str(error))
        return None
    launcher = known.launcher(spec.type)
    _check_roles(scope, place, spec)
    if len(scope.problems) > before:
        return None
    loading = launcher.adapters({each.name: each.value or "" for each in spec.env})
    adapters = _adapters(scope, place, spec, launcher, loading)
    workers = _workers(scope, place, spec, launcher, stored, adapters, loading, taken)
    _check_ports(scope, workers, runtime)
    if any(problem.field.startswith(f"{place}.workers") for problem in scope.problems[before:]):
        return None
    server = names.of_backend(scope.model, spec.name)
    return Backend(index, spec, server, launcher, stored, runtime, tuple(workers), adapters, loading)


def _check_roles(scope: Scope, place: str, spec: ModelBackend) -> None:
    allowed = _NEEDED.get(spec.type, ("server",))
    for index, worker in enumerate(spec.workers):
        if worker.type not in allowed:
            told = (
                f"is {worker.type!r}; a backend of type {spec.type} has workers of type {', '.join(allowed)}"
            )
            scope.report(f"{place}.workers[{index}].type", told)
    present = {worker.type for worker in spec.workers}
    missing = [role for role in _NEEDED.get(spec.type, ()) if role not in present]
    if missing:
        scope.report(f"{place}.workers", f"a backend of type {spec.type} needs a worker {_or(missing)}")
    names_table = spec.env_from or any(each.name == mindie.RANK_TABLE for each in spec.env)
    if spec.type == "MindIEDisaggregated" and not names_table:
        scope.report(
            f"{place}.env",
            f"must have {mindie.RANK_TABLE}, the file from which the controller of MindIE knows "
            "accelerators and servers",
        )


def _or(roles: list[Role]) -> str:
    return " and one ".join(f"of type {role}" for role in roles)


def _adapters(
    scope: Scope, place: str, spec: ModelBackend, launcher: Launcher, loading: Adapters
) -> tuple[LoraAdapter, ...]:
    """The adapters that the engine can serve; the others are reported."""
    if loading is Adapters.NEVER:
        if spec.lora_adapters:
            scope.report(
                f"{place}.loraAdapters",
                f"{launcher.engine.name} cannot load adapters: requests for them are answered by other "
                "backends, or not at all",
            )
        return ()
    served = names.served(scope.model)
    for index, adapter in enumerate(spec.lora_adapters):
        if adapter.name == served:
            scope.report(
                f"{place}.loraAdapters[{index}].name",
                f"{served!r} is the name by which the engines serve the model itself: rename the adapter",
            )
    return tuple(adapter for adapter in spec.lora_adapters if adapter.name != served)


def _workers(
    scope: Scope,
    place: str,
    spec: ModelBackend,
    launcher: Launcher,
    stored: Storage,
    adapters: tuple[LoraAdapter, ...],
    loading: Adapters,
    taken: set[str],
) -> list[Worker]:
    configs = [worker.config for worker in spec.workers]
    transfers = (_transfer(config) for config in configs if isinstance(config, dict))
    transfer = next((each for each in transfers if each is not None), None)
    shares: dict[Role, int] = {}
    for worker in spec.workers:
        shares[worker.type] = shares.get(worker.type, 0) + (worker.replicas or 1)
    directories = volumes.directories(spec.lora_adapters, stored.adapters)
    # Who has opened the API for adapters wants no rollout for the first one.
    chosen = loading is Adapters.RUN_TIME and launcher.adapters({}) is not Adapters.RUN_TIME
    at_start = {a.name: directories[a.name] for a in adapters} if loading is Adapters.AT_START else {}
    found = []
    for index, worker in enumerate(spec.workers):
        field = f"{place}.workers[{index}]"
        if worker.config is not None and not isinstance(worker.config, dict):
            scope.report(f"{field}.config", "must be an object with the flags of the engine by name")
            continue
        pods = worker.pods or 1
        if pods > 1 and not launcher.runs_in_groups:
            scope.report(f"{field}.pods", f"is {pods}; {launcher.engine.name} runs in one Pod only")
            continue
        setup = Setup(
            weights=stored.weights.directory,
            name=names.served(scope.model),
            config=worker.config or {},
            role=worker.type,
            adapters=at_start,
            change_adapters=chosen or (loading is Adapters.RUN_TIME and bool(adapters)),
            pods=pods,
            devices=_devices(worker),
            transfer=transfer,
            shares=shares,
        )
        launch = launcher.launch(setup)
        for problem in launch.problems:
            scope.report(f"{field}.config{_key(problem.key)}", problem.message)
        found.append(Worker(_name(scope.model, spec, index, taken), field, worker, launch))
    connectors = sorted({worker.launch.connector for worker in found if worker.launch.connector})
    if len(connectors) > 1:
        told = " and ".join(connectors)
        scope.report(f"{place}.workers", f"must use one connector for the KV cache, and use {told}")
    return found


def _transfer(config: Mapping[str, Any]) -> object:
    """The transfer configuration of a worker, if it has one that other workers can share."""
    return Config(config).take_object(vllm_transfer.FLAG)


def _key(key: str) -> str:
    return f".{key}" if key else ""


def _check_ports(scope: Scope, workers: list[Worker], runtime: RuntimeSettings) -> None:
    for worker in workers:
        if runtime.port in (worker.launch.port, worker.launch.health_port):
            scope.report(
                f"{worker.place}.config.port",
                f"is {runtime.port}, where the sidecar listens: change it, or set RUNTIME_PORT in env",
            )


def _name(model: api.Model, spec: ModelBackend, index: int, taken: set[str]) -> str:
    """The name of a worker's workload: unique in the Model, and short enough for its kind."""
    worker = spec.workers[index]
    name = f"{model.metadata.name}-{spec.name}"
    if spec.type in DISAGGREGATED:
        before = sum(other.type == worker.type for other in spec.workers[:index])
        name += f"-{worker.type}" + (f"-{before}" if before else "")
    if (worker.pods or 1) > 1:
        name = names.dns_label(name, names.LONGEST_LEADER_WORKER_SET)
    else:
        name = names.shortened(name, names.LONGEST_DEPLOYMENT)
    if name in taken:
        own = names.digest(f"{spec.name}/{worker.type}/{index}")
        name = f"{name[: names.LONGEST_LEADER_WORKER_SET - len(own) - 1].rstrip('-.')}-{own}"
    taken.add(name)
    return name


def _devices(worker: ModelWorker) -> int:
    """Accelerators of each Pod."""
    amounts = {**worker.resources.requests, **worker.resources.limits}
    found = 0
    for resource, amount in amounts.items():
        if any(part in resource for part in _ACCELERATORS):
            try:
                found += quantity.parse(amount).rounded_up()
            except quantity.QuantityError:
                continue  # the API server rejects such a Model
    return min(max(found, 0), _MOST_ACCELERATORS)
