"""Objects in few words, and status controllers at work on a real embedded API server."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from headgate import api, apiserver, cluster
from headgate.api import gie_v1, gie_v1alpha1, gie_v1alpha2
from headgate.controllers import StatusController
from headgate.controllers.assessment import status_of
from headgate.controllers.object_index import ObjectIndex
from headgate.controllers.relations import Observed, Subject
from headgate.controllers.statuses import Settling

NOW = "2026-01-31T08:15:00Z"


def meta(name: str, labels: dict[str, str] | None = None, namespace: str = "default") -> api.ObjectMeta:
    return api.ObjectMeta(name=name, namespace=namespace, labels=labels or {}, generation=1)


def pod(
    name: str,
    labels: dict[str, str],
    *,
    ready: bool = True,
    phase: str = "Running",
    namespace: str = "default",
) -> api.Pod:
    conditions = [api.Condition(type="Ready", status="True" if ready else "False")]
    return api.Pod(
        metadata=meta(name, labels, namespace),
        spec=api.PodSpec(containers=[api.Container(name="engine", image="sim:1")]),
        status=api.PodStatus(phase=phase, pod_ip="127.1.0.1", conditions=conditions),
    )


def server(
    name: str,
    selector: dict[str, str],
    *,
    timeout: str | None = None,
    namespace: str = "default",
    authorities: str | None = None,
) -> api.ModelServer:
    """`authorities` makes it speak https, verified by that Secret."""
    spec = {"inferenceEngine": "vLLM", "workloadSelector": {"matchLabels": selector}}
    if timeout is not None:
        spec["trafficPolicy"] = {"timeout": timeout}
    metadata = meta(name, namespace=namespace)
    if authorities is not None:
        spec["workloadPort"] = {"port": 8000, "protocol": "https"}
        metadata = msgspec.structs.replace(metadata, annotations={"headgate.dev/tls-ca": authorities})
    return api.ModelServer(metadata=metadata, spec=msgspec.convert(spec, api.ModelServerSpec))


def secret(name: str, namespace: str = "default", **data: str) -> api.Secret:
    encoded = {
        key.replace("_", "."): base64.b64encode(value.encode()).decode() for key, value in data.items()
    }
    return api.Secret(metadata=meta(name, namespace=namespace), data=encoded)


def rule(*targets: str, regex: str | None = None, **weights: int) -> api.Rule:
    """Targets by name; keyword arguments are targets with their weights."""
    every = dict.fromkeys(targets, 100) | weights
    match = api.ModelMatch(uri=api.StringMatch(regex=regex)) if regex else None
    return api.Rule(
        model_match=match,
        target_models=[api.TargetModel(model_server_name=name, weight=w) for name, w in every.items()],
    )


def route(
    name: str,
    *rules: api.Rule,
    namespace: str = "default",
    model: str = "m",
    adapters: Sequence[str] = (),
    created: str = "",
) -> api.ModelRoute:
    metadata = msgspec.structs.replace(meta(name, namespace=namespace), creation_timestamp=created)
    spec = api.ModelRouteSpec(model_name=model, lora_adapters=list(adapters), rules=list(rules))
    return api.ModelRoute(metadata=metadata, spec=spec)


def inference_pool(
    name: str,
    selector: dict[str, str],
    *,
    group: str = gie_v1.GROUP,
    namespace: str = "default",
    models: str | None = None,
    picker: str | None = None,
    ports: Sequence[int] = (8000,),
    authorities: str | None = None,
) -> Observed:
    """An InferencePool of the version of the group; `models` are those of its annotation, and `authorities`
    makes it speak https."""
    notes = {} if models is None else {"headgate.dev/models": models}
    if authorities is not None:
        notes |= {"headgate.dev/protocol": "https", "headgate.dev/tls-ca": authorities}
    metadata = msgspec.structs.replace(meta(name, namespace=namespace), annotations=notes)
    if group == gie_v1alpha1.GROUP:
        old = gie_v1alpha1.InferencePoolSpec(selector=selector, target_port_number=ports[0])
        return gie_v1alpha1.InferencePool(metadata=metadata, spec=old)
    reference = gie_v1.EndpointPickerRef(name=picker, port=gie_v1.Port(number=9002)) if picker else None
    spec = gie_v1.InferencePoolSpec(
        selector=gie_v1.LabelSelector(match_labels=selector),
        target_ports=[gie_v1.Port(number=port) for port in ports],
        endpoint_picker_ref=reference,
    )
    return gie_v1.InferencePool(metadata=metadata, spec=spec)


def inference_model(
    name: str,
    model: str = "m",
    pool: str = "pool",
    *,
    group: str = gie_v1.GROUP,
    namespace: str = "default",
    created: str = "",
    **weights: int,
) -> api.InferenceModel:
    """Keyword arguments are targets with their weights."""
    metadata = msgspec.structs.replace(meta(name, namespace=namespace), creation_timestamp=created)
    targets = [gie_v1alpha1.TargetModel(name=each, weight=weight) for each, weight in weights.items()]
    reference = gie_v1alpha1.PoolObjectReference(group=group, name=pool)
    spec = gie_v1alpha1.InferenceModelSpec(model_name=model, pool_ref=reference, target_models=targets)
    return api.InferenceModel(metadata=metadata, spec=spec)


def objective(
    name: str, pool: str = "pool", *, group: str = gie_v1.GROUP, namespace: str = "default"
) -> api.InferenceObjective:
    reference = gie_v1alpha2.PoolObjectReference(group=group, name=pool)
    spec = gie_v1alpha2.InferenceObjectiveSpec(priority=1, pool_ref=reference)
    return api.InferenceObjective(metadata=meta(name, namespace=namespace), spec=spec)


def service(name: str, *, namespace: str = "default", kind: str = "ClusterIP") -> api.Service:
    return api.Service(metadata=meta(name, namespace=namespace), spec={"type": kind})


def index_of(*objects: Observed | api.Pod | api.Secret | api.Service) -> ObjectIndex:
    index = ObjectIndex()
    for obj in objects:
        put(index, type(obj), obj.metadata.key, obj)
    return index


def put(index: ObjectIndex, kind: type, key: api.ObjectKey, obj: object) -> set[Subject]:
    """Any object as it is now, None for one that is gone; returns what it touches."""
    puts = {api.Pod: index.put_pod, api.Secret: index.put_secret, api.Service: index.put_service}
    return puts[kind](key, obj) if kind in puts else index.put(Subject(kind, key), obj)


def conditions(obj: Observed, *others: Observed | api.Pod | api.Service) -> dict[str, tuple[str, str, str]]:
    """Status, reason and message by type, as they would be with these others around."""
    status = status_of(obj, index_of(obj, *others), NOW)
    return {each.type: (each.status, each.reason, each.message) for each in status.conditions}


async def eventually(probe: Callable[[], Awaitable[bool]], timeout_s: float = 60.0) -> None:
    """Until it holds; fails with TimeoutError otherwise."""
    async with asyncio.timeout(timeout_s):
        while not await probe():
            await asyncio.sleep(0.02)


async def put_pod(client: cluster.Client, name: str, labels: dict[str, str], *, ready: bool = True) -> None:
    """A Pod and its status, as a node would bring them."""
    new = pod(name, labels, ready=ready)
    await client.create(new)
    await client.patch_status(api.Pod, name, "default", msgspec.to_builtins(new.status))


@contextlib.asynccontextmanager
async def controlling(
    client: cluster.Client, settling: Settling | None = None
) -> AsyncIterator[StatusController]:
    """A status controller that runs inside the block."""
    controller, ready = StatusController(client, settling=settling), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(controller.run(2, ready.set))
        await ready.wait()
        yield controller
        running.cancel()


@pytest.fixture(scope="session")
def kit() -> SimpleNamespace:
    """The helpers of this folder, for tests that can't import their neighbours."""
    return SimpleNamespace(
        now=NOW,
        pod=pod,
        server=server,
        secret=secret,
        rule=rule,
        route=route,
        inference_pool=inference_pool,
        inference_model=inference_model,
        objective=objective,
        service=service,
        old=gie_v1alpha1.GROUP,
        new=gie_v1.GROUP,
        index_of=index_of,
        put=put,
        conditions=conditions,
        eventually=eventually,
        put_pod=put_pod,
        controlling=controlling,
    )


@pytest.fixture
async def apiserver_running(tmp_path: Path) -> AsyncIterator[apiserver.Running]:
    async with apiserver.running(apiserver.Config(tmp_path / "state", port=0)) as running:
        yield running


@pytest.fixture
async def client(apiserver_running: apiserver.Running) -> AsyncIterator[cluster.Client]:
    async with cluster.Client.from_kubeconfig(apiserver_running.kubeconfig) as client:
        yield client
