"""The Pods of a worker: sidecar, downloads and engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from headgate.api import marks
from headgate.api.containers import EnvVar
from headgate.controllers.model import names
from headgate.controllers.model.backends import Backend, Worker
from headgate.controllers.model.scope import Scope
from headgate.controllers.model.volumes import Mounted
from headgate.engines import POD_LABELS
from headgate.engines.launch import CONFIG_FILE, DEFAULT_PORT, PYTHON, Adapters, Program

RUNTIME, DOWNLOAD, ENGINE = "runtime", "download", "engine"
"""Names of containers. Adapters are downloaded by `adapter-0` and so on."""

GRACE_S: Final = 300
"""An engine has this long to finish the requests that it has."""
STATUS_DIRECTORY: Final = "/run/headgate"
"""Downloads write their progress here, and the sidecar reads it."""
TOKEN_DIRECTORY: Final = "/etc/headgate/runtime"  # noqa: S105 - a path
CONFIG_ANNOTATION: Final = f"{marks.DOMAIN}engine-config"
"""On Pods of engines that are configured by a file: its text. With the template, it changes by a rollout."""


class StartAdapter(NamedTuple):
    """An adapter that engines load at their start."""

    name: str
    digest: str
    """Of its source."""
    container: str
    """The init container that downloads it, if it need be."""


_DOWNLOAD_VARIABLES: Final = (
    *("ENDPOINT", "ACCESS_KEY", "SECRET_KEY", "REGION", "ADDRESSING_STYLE", "SSL_CERT_FILE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
_DOWNLOAD_PREFIXES: Final = ("HF_", "AWS_", "DOWNLOAD_")
_START_S: Final = 3600
"""Loading the largest models takes an engine long."""


def template(
    scope: Scope, backend: Backend, worker: Worker, labels: dict[str, str], *, follower: bool = False
) -> dict[str, Any]:
    """The Pod template of a worker: of its only or first Pod, or of the others."""
    shared = Mounted({"name": "headgate", "emptyDir": {}}, STATUS_DIRECTORY)
    volumes = [shared]
    if backend.storage.downloads or backend.loading is Adapters.RUN_TIME:
        volumes.append(backend.storage.cache)
    volumes += backend.storage.claims
    secret = names.runtime_secret(scope.model)
    token = Mounted({"name": "runtime-token", "secret": {"secretName": secret}}, TOKEN_DIRECTORY)
    image = scope.settings.headgate_image
    inits = list(_downloads(backend, image, volumes)) if worker.launch.reads_weights else []
    if not follower:
        inits.insert(0, _runtime(backend, worker, image, volumes, token, scope.model.metadata.name))
    own = _engine_volumes(worker, backend)
    mounts = [each.mount(read_only=True) for each in volumes[1:]] + [each.mount() for each in own]
    engine = _follower(backend, worker, mounts) if follower else _engine(backend, worker, mounts)
    every = [*volumes, *([] if follower else [token]), *own]
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": GRACE_S,
        # Variables of Services would be taken for the engine's own: a Service `vllm` sets VLLM_PORT.
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "initContainers": inits,
        "containers": [engine],
        "volumes": [each.volume for each in every],
    }
    if worker.spec.affinity is not None:
        spec["affinity"] = msgspec.to_builtins(worker.spec.affinity)
    # While a backend changes its engine, Pods of both engines serve.
    engine_label = {POD_LABELS[0]: backend.launcher.engine.name}
    metadata: dict[str, Any] = {"labels": {**labels, **engine_label}}
    annotations = _annotations(worker, () if follower else start_adapters(backend))
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": spec}


def start_adapters(backend: Backend) -> tuple[StartAdapter, ...]:
    """Those of a backend whose engine has them from its start."""
    if backend.loading is not Adapters.AT_START:
        return ()
    return tuple(
        StartAdapter(each.name, names.digest(each.artifact_url), f"adapter-{index}")
        for index, each in enumerate(backend.spec.lora_adapters)
        if each in backend.adapters
    )


def _annotations(worker: Worker, adapters: Sequence[StartAdapter]) -> dict[str, str]:
    """The port and adapters are annotations, because Pods of two revisions can have different ones."""
    found = {}
    if adapters:
        found[names.ADAPTERS] = msgspec.json.encode({each.name: each.digest for each in adapters}).decode()
    if worker.launch.port != DEFAULT_PORT:
        found[marks.PORT] = str(worker.launch.port)
    if worker.launch.file:
        found[CONFIG_ANNOTATION] = worker.launch.file
    return found


def _engine_volumes(worker: Worker, backend: Backend) -> list[Mounted]:
    found = [Mounted({"name": "dshm", "emptyDir": {"medium": "Memory"}}, "/dev/shm")]  # noqa: S108
    if worker.launch.file:
        directory, _, name = CONFIG_FILE.rpartition("/")
        item = {"path": name, "fieldRef": {"fieldPath": f"metadata.annotations['{CONFIG_ANNOTATION}']"}}
        found.append(Mounted({"name": "engine-config", "downwardAPI": {"items": [item]}}, directory))
    return found


def _downloads(backend: Backend, image: str, volumes: Sequence[Mounted]) -> Iterable[dict[str, Any]]:
    """A container for the weights, and one for each adapter that is loaded at start."""
    sources = [(DOWNLOAD, "weights", backend.storage.weights)]
    of_adapters = zip(backend.spec.lora_adapters, backend.storage.adapters, strict=True)
    directories = {adapter.name: source for adapter, source in of_adapters}
    sources += [(each.container, each.container, directories[each.name]) for each in start_adapters(backend)]
    for container, name, source in sources:
        if source.in_place:
            continue
        yield {
            "name": container,
            "image": image,
            "command": ["headgate", "download"],
            "args": [
                *("--source", source.uri, "--output-dir", source.directory),
                *("--name", name, "--status-dir", STATUS_DIRECTORY),
            ],
            **_download_environment(backend),
            "volumeMounts": [each.mount() for each in volumes],
        }


def _runtime(
    backend: Backend, worker: Worker, image: str, volumes: Sequence[Mounted], token: Mounted, model: str
) -> dict[str, Any]:
    """The sidecar. Native sidecars end after the engine."""
    settings = backend.runtime
    return {
        "name": RUNTIME,
        "image": image,
        "restartPolicy": "Always",
        "command": ["headgate", "runtime"],
        "args": [
            *("--host", "$(POD_IP)", "--port", str(settings.port)),
            *("--engine", backend.launcher.engine.name.lower()),
            *("--engine-base-url", settings.url(worker.launch.port)),
            *("--engine-metrics-path", settings.metrics_path),
            *("--pod", "$(POD_NAME).$(NAMESPACE)", "--model", model),
            *("--token-file", f"{TOKEN_DIRECTORY}/token", "--state-dir", STATUS_DIRECTORY),
            *("--adapters-dir", backend.storage.base),
        ],
        **_download_environment(backend, _POD_FIELDS),
        "ports": [{"name": RUNTIME, "containerPort": settings.port}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": settings.port}, "periodSeconds": 5},
        "volumeMounts": [*(each.mount() for each in volumes), token.mount(read_only=True)],
    }


def _engine(backend: Backend, worker: Worker, mounts: list[dict[str, Any]]) -> dict[str, Any]:
    launch, port = worker.launch, worker.launch.port
    health = {"httpGet": {"path": launch.health_path, "port": launch.health_port or port}}
    ready = health
    if backend.loading is Adapters.RUN_TIME and launch.takes_requests:
        # An engine that has just started has no adapters: requests come once the sidecar has loaded them.
        ready = {"httpGet": {"path": "/ready", "port": backend.runtime.port}}
    return {
        **_container(backend, worker, launch.program, mounts),
        "ports": [{"name": "http", "containerPort": port}],
        "startupProbe": {
            **health,
            "periodSeconds": 5,
            "timeoutSeconds": 5,
            "failureThreshold": _START_S // 5,
        },
        "readinessProbe": {**ready, "periodSeconds": 5, "timeoutSeconds": 5},
        # A busy engine may be slow to answer; one that does not for two minutes hangs.
        "livenessProbe": {**health, "periodSeconds": 10, "timeoutSeconds": 10, "failureThreshold": 12},
        # The sidecar answers once the engine has no request any more.
        "lifecycle": {"preStop": {"httpGet": {"path": "/drain", "port": backend.runtime.port}}},
    }


_WAIT_FOR_LEADER: Final = """\
import os, sys, urllib.request
try:
    urllib.request.urlopen(f"http://{os.environ['LWS_LEADER_ADDRESS']}:{sys.argv[1]}/drain", timeout=290)
except OSError as error:
    print(error)
"""


def _follower(backend: Backend, worker: Worker, mounts: list[dict[str, Any]]) -> dict[str, Any]:
    """A further Pod of a worker stays as long as its first one has requests."""
    assert worker.launch.follower is not None
    wait = [PYTHON, "-I", "-c", _WAIT_FOR_LEADER, str(backend.runtime.port)]
    return {
        **_container(backend, worker, worker.launch.follower, mounts),
        "lifecycle": {"preStop": {"exec": {"command": wait}}},
    }


def _container(
    backend: Backend, worker: Worker, program: Program, mounts: list[dict[str, Any]]
) -> dict[str, Any]:
    own = {each.name for each in backend.spec.env}
    derived = [{"name": name, "value": value} for name, value in worker.launch.environment.items()]
    found: dict[str, Any] = {
        "name": ENGINE,
        "image": worker.spec.image or backend.launcher.image,
        "command": list(program.command),
        "env": [
            *(each for each in (*_POD_FIELDS, *derived) if each["name"] not in own),
            *_builtins(backend.spec.env),
        ],
        "resources": msgspec.to_builtins(worker.spec.resources),
        "volumeMounts": mounts,
        # Engines write why they end to their log only.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if program.args:
        found["args"] = list(program.args)
    if backend.spec.env_from:
        found["envFrom"] = _builtins(backend.spec.env_from)
    return found


def _download_environment(
    backend: Backend, first: Sequence[dict[str, Any]] = ()
) -> dict[str, list[dict[str, Any]]]:
    """Where downloads go, and their credentials."""
    wanted = (
        each
        for each in backend.spec.env
        if each.name in _DOWNLOAD_VARIABLES or each.name.startswith(_DOWNLOAD_PREFIXES)
    )
    env = [*first, *_builtins(wanted)]
    found = {"env": env} if env else {}
    return {**found, "envFrom": _builtins(backend.spec.env_from)} if backend.spec.env_from else found


_POD_FIELDS: Final[tuple[dict[str, Any], ...]] = (
    {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
    {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
)


def _builtins(values: Iterable[EnvVar | Any]) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(each) for each in values]
