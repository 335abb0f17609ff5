"""Run all of Headgate on one machine: start its processes, apply the manifests, wait until models respond."""

import asyncio
import contextlib
import errno
import json
import os
import secrets
import shlex
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import httpx2
import msgspec
from rich.console import Console

from headgate import admin_token, cluster, private_files, routing, serving
from headgate.cli import addresses, applying, machine_state, machine_workloads
from headgate.cli.gateway import flags as gateway_flags
from headgate.cli.machine_workloads import WORKLOADS
from headgate.cli.manifests import Manifest
from headgate.cli.process import Output, stop_on_signal
from headgate.cli.progress import Progress
from headgate.cli.route import sources
from headgate.cli.supervisor import Child, lock_state, no_space
from headgate.dataplane.credentials import required
from headgate.gateway import GatewaySettings, setting_types
from headgate.gateway.old_settings import RENAMED

STOP_GRACE_S = 35.0
"""For every process except the gateway, whose settings define how long it drains."""
KILL_AFTER_S = 10.0
"""Added to the gateway's own shutdown time before it is killed."""
API_SERVER_START_S = 20.0
POLL_S = 0.1
EXPLAIN_S = 2.0
"""How often to check for changes in what is not ready yet."""

_ERROR = "Error: "
_CANNOT_LISTEN = f"{_ERROR}cannot listen on "
_NEEDED_BYTES = 12 << 20
"""Free space that an API server needs to create new state."""
_LOOPBACK = "127.0.0.1"
_API, _OBJECTS, _GATEWAY, _MODELS = "API server", "objects", "gateway", "models"


class StartError(Exception):
    """The machine could not be started; the message says why and how to fix it."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of `headgate up`."""

    manifests: list[Manifest]
    state: Path
    apiserver_port: int
    gateway: GatewaySettings
    gateway_origins: dict[str, str]
    """Origin of each setting that does not have its default, by path."""
    gateway_arguments: list[str]
    """The file and flags that these settings come from."""
    wait_s: float
    images: Path | None = None
    """The file of commands that run in place of images."""
    prometheus: str = ""
    """Server for metrics of AutoscalingPolicies that are queries."""
    controller_metrics_port: int | None = None

    @property
    def kubeconfig(self) -> Path:
        return self.state / "kubeconfig"

    @property
    def url(self) -> str:
        return addresses.url(self.gateway.listen.host, self.gateway.listen.port)

    @property
    def local_url(self) -> str:
        """The inference API, for programs on this machine."""
        return addresses.local_url(self.gateway.listen.host, self.gateway.listen.port)

    @property
    def admin_url(self) -> str:
        return addresses.local_url(self.gateway.admin.host, self.gateway.admin.port)

    @property
    def metrics_url(self) -> str:
        return addresses.local_url(self.gateway.metrics.host, self.gateway.metrics.port)

    @property
    def needs_keys(self) -> bool:
        """Whether clients need credentials."""
        return required.are_required(self.gateway.auth, self.gateway.scheduling.content)

    @property
    def admin_token(self) -> Path | None:
        """The file with the token of the metrics and admin pages: that of the settings, or of the machine;
        None if they need none."""
        if self.gateway.auth.admin_token_file is not None:
            return Path(self.gateway.auth.admin_token_file)
        return self.state / machine_state.ADMIN_CREDENTIAL if self.needs_keys else None

    @property
    def gateway_stop_s(self) -> float:
        """How long the gateway may take to stop, according to its settings."""
        return self.gateway.shutdown.lameduck_s + self.gateway.shutdown.drain_s


def gateway_arguments(
    config: Path | None, flags: Mapping[str, Any], origins: Mapping[str, str], listen_host: str
) -> list[str]:
    """Arguments for `headgate gateway` besides its kubeconfig: file and flags as given.

    If only this machine can connect, it is a trusted proxy, unless a setting names the trusted ones.
    """
    words = ["--config", str(config)] if config is not None else []
    for name, value in flags.items():
        setting = setting_types.by_key().get(name) or setting_types.settings()[RENAMED[name]]
        words += [setting.flags[0], str(value)]
    if listen_host == _LOOPBACK and "clients.trusted_networks" not in origins:
        words += ["--clients-trusted-networks", f"{_LOOPBACK}/32"]
    return words


class Following(NamedTuple):
    """What to wait for, in place of all workloads and models of the machine."""

    steps: Sequence[str]
    until_ready: Callable[[cluster.Client, Progress], Awaitable[str]]
    """Returns what to print then."""


def _controller_arguments(options: Options) -> list[object]:
    words: list[object] = ["--kubeconfig", options.kubeconfig, "--gateway", options.metrics_url]
    words += ["--gateway-address", addresses.local_host(options.gateway.listen.host)]
    of_gateway = options.gateway
    for port in (of_gateway.listen.port, of_gateway.admin.port, of_gateway.metrics.port):
        words += ["--gateway-own-port", port]
    words += ["--prometheus", options.prometheus] if options.prometheus else []
    if options.controller_metrics_port is not None:
        words += ["--metrics-port", options.controller_metrics_port]
    return words


async def run(options: Options, following: Following | None = None, *, descriptor: int = 1) -> None:
    """Start everything, report when it is ready, and stop it all on SIGINT or SIGTERM.

    `descriptor` is that of standard output or error, for reports. Raises StartError, the error of the API
    server, or what `following` raises, after stopping what was started.
    """
    console = Console(file=cast(IO[str], Output(descriptor)))
    lock = lock_state(options.state)
    stop = stop_on_signal()
    try:
        _check_ports(options)
        async with _Machine(options, console, following) as machine:
            started = asyncio.ensure_future(machine.start())
            stopped = asyncio.ensure_future(stop.wait())
            ends: list[asyncio.Future[Any]] = [started, stopped, machine.failed]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if started.done():
                await started
                await stopped
            started.cancel()
            stopped.cancel()
            await asyncio.gather(started, stopped, return_exceptions=True)
            if machine.failed.done():
                raise StartError(machine.failed.result())
            console.print("Stopping: draining requests and Pods (Ctrl-C again stops immediately) ...")
    finally:
        os.close(lock)


def _check_ports(options: Options) -> None:
    """Report all ports that are in use in one message, before starting anything."""
    listen, metrics, admin = options.gateway.listen, options.gateway.metrics, options.gateway.admin
    wanted = [
        ("the inference API", listen.host, listen.port, _Moved(options, "listen")),
        ("the gateway's metrics", metrics.host, metrics.port, _Moved(options, "metrics")),
        ("the gateway's admin page", admin.host, admin.port, _Moved(options, "admin")),
        ("the Kubernetes API", _LOOPBACK, options.apiserver_port, None),
    ]
    problems = []
    users: dict[int, str] = {}
    for purpose, host, port, moved in wanted:
        remedy = moved.by("port") if moved else f"--apiserver-port or {machine_state.APISERVER_PORT_VARIABLE}"
        if port == 0:
            problems.append(f"`headgate up` cannot use port 0, a random port: choose another with {remedy}")
            continue
        if users.setdefault(port, purpose) != purpose:
            told = f"port {port} for {purpose} is also used for {users[port]}"
            problems.append(f"{told}; choose another port with {remedy}")
            continue
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except (socket.gaierror, UnicodeError) as error:
                told = serving.without_address(host, error)
                problems.append(f"{told}; set {moved.by('host')}" if moved is not None else told)
            except OSError as error:
                what = f"port with {remedy}"
                if error.errno == errno.EADDRNOTAVAIL and moved is not None:
                    what = f"address with {moved.by('host')}"
                told = f"cannot listen on {host}:{port} for {purpose}: {error.strerror}"
                problems.append(f"{told}; choose another {what}")
    if problems:
        raise StartError("\n".join(problems))


class _Moved(NamedTuple):
    """How to change the address of a section for `headgate up`."""

    options: Options
    section: str

    def by(self, name: str) -> str:
        """The flag, if this command has one, the variable and the setting; and where it is set now."""
        setting = setting_types.settings()[f"{self.section}.{name}"]
        flags = [setting.flags[0]] if setting.path in gateway_flags.OF_UP else []
        ways = [*flags, setting.variable, f"{setting.path} in the file of --gateway-config"]
        origin = self.options.gateway_origins.get(setting.path)
        said = f" (set by {origin})" if origin is not None and origin not in setting.flags else ""
        return f"{', '.join(ways[:-1])} or {ways[-1]}{said}"


class _Machine:
    """The processes, from start to stop."""

    def __init__(self, options: Options, console: Console, following: Following | None) -> None:
        self._options = options
        self._console = console
        self._following = following
        self._children: list[Child] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._is_api_up = False
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why the start cannot succeed, once that is known."""

    async def __aenter__(self) -> "_Machine":
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop in an order that loses nothing: requests first, then Pods, and the API server last."""
        try:
            for name in ("gateway", "controller", "node", "apiserver"):
                grace_s = STOP_GRACE_S
                if name == "gateway":
                    grace_s = self._options.gateway_stop_s + KILL_AFTER_S
                for child in self._children:
                    if child.name == name and not await child.stop(grace_s):
                        self._console.print(f"The {name} did not stop in {grace_s:g} s and was killed.")
        finally:
            for child in self._children:
                child.kill()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def start(self) -> None:
        options = self._options
        own = self._following.steps if self._following is not None else [WORKLOADS, _GATEWAY, _MODELS]
        steps = [_API, *([_OBJECTS] if options.manifests else []), *own]
        with Progress(self._console, steps) as progress:
            await self._start_api_server(progress)
            async with cluster.Client.from_kubeconfig(options.kubeconfig) as client:
                words = ["--kubeconfig", options.kubeconfig, "--state", options.state]
                words += ["--images", options.images] if options.images is not None else []
                self._start_child("node", "node", *words)
                self._start_gateway()
                token = options.admin_token
                environment = {admin_token.FILE_VARIABLE: str(token)} if token is not None else None
                arguments = _controller_arguments(options)
                self._start_child("controller", "controller", *arguments, environment=environment)
                if options.manifests:
                    progress.detail(_OBJECTS, "applying")
                    progress.done(_OBJECTS, await _apply(client, options.manifests))
                if self._following is not None:
                    told = await self._following.until_ready(client, progress)
                else:
                    told = await self._until_all_ready(client, progress)
        self._console.print(told, highlight=False, markup=False, soft_wrap=True)

    async def _until_all_ready(self, client: cluster.Client, progress: Progress) -> str:
        """Wait for everything that the objects ask for; returns the summary."""
        async with self._explained_after(self._options.wait_s, client):
            await asyncio.gather(
                machine_workloads.until_available(client, progress),
                self._until_models_ready(client, progress),
            )
        return _summary(self._options, await _snapshot(client))

    async def _start_api_server(self, progress: Progress) -> None:
        options = self._options
        progress.detail(_API, "starting")
        options.kubeconfig.unlink(missing_ok=True)
        child = self._start_child(
            "apiserver", "apiserver", "--state", options.state, "--port", options.apiserver_port
        )
        try:
            async with asyncio.timeout(API_SERVER_START_S):
                while not options.kubeconfig.exists():
                    if child.restarts:
                        raise StartError(_why_it_ended(child, options.state))
                    await asyncio.sleep(POLL_S / 5)
        except TimeoutError:
            raise StartError(_fell_over(child)) from None
        self._is_api_up = True
        progress.done(_API, f"https://127.0.0.1:{options.apiserver_port}")

    def _start_gateway(self) -> None:
        options = self._options
        file = options.state / machine_state.GATEWAY_FILE
        told = f"{options.admin_url}\n{options.local_url}\n"
        if not file.exists() or file.read_text() != told:  # a full disk might reject a rewrite
            file.write_text(told)
        words: list[object] = ["--kubeconfig", options.kubeconfig, *options.gateway_arguments]
        if options.gateway.auth.admin_token_file is None and options.admin_token is not None:
            if not options.admin_token.exists():
                private_files.write(options.admin_token, secrets.token_urlsafe(32).encode() + b"\n")
            words += ["--auth-admin-token-file", options.admin_token]
        self._start_child("gateway", "gateway", *words)

    def _start_child(self, name: str, *words: object, environment: Mapping[str, str] | None = None) -> Child:
        logs = self._options.state / "logs"
        logs.mkdir(exist_ok=True)
        # With -P, Python never imports a file in the working directory as a module.
        argv = [sys.executable, "-P", "-m", "headgate", *map(str, words)]
        child = Child(name, argv, logs / f"{name}.log", environment)
        self._children.append(child)
        self._tasks.append(asyncio.create_task(child.run(self._tell_restart), name=name))
        return child

    def _tell_restart(self, child: Child, code: int) -> None:
        if not self._is_api_up:
            child.kill()  # it never started: a restart would fail the same way
            return
        told = next((line for line in child.last_lines(5) if line.startswith(_CANNOT_LISTEN)), None)
        if child.name == "gateway" and told is not None and not self.failed.done():
            self.failed.set_result(told.removeprefix(_ERROR))  # during the start, somebody took the port
        self._console.print(
            f"The {child.name} exited with {code} and is being restarted; its log is {child.log_path}",
            markup=False,
            soft_wrap=True,
        )

    async def _until_models_ready(self, client: cluster.Client, progress: Progress) -> None:
        """Wait until the gateway routes to at least one endpoint of every pool that a route names."""
        options = self._options
        progress.detail(_GATEWAY, "starting")
        async with httpx2.AsyncClient(trust_env=False, timeout=5.0) as http:
            while True:
                state = await _gateway_state(http, options.admin_url, options.admin_token)
                if state is not None:
                    progress.done(_GATEWAY, options.url)
                    wanted = _routed_pools(await _snapshot(client))
                    empty = [pool for pool in sorted(wanted) if not await _answers(state.pools.get(pool, []))]
                    if not empty:
                        break
                    progress.detail(_MODELS, f"waiting for endpoints of {', '.join(empty)}")
                await asyncio.sleep(POLL_S)
        names = _models(await _snapshot(client))
        progress.done(_MODELS, ", ".join(names) if names else "no route yet")

    @contextlib.asynccontextmanager
    async def _explained_after(self, wait_s: float, client: cluster.Client) -> AsyncIterator[None]:
        """After `wait_s` seconds, print what is not ready, and again whenever that changes."""

        async def explain() -> None:
            started = asyncio.get_running_loop().time()
            told: list[str] = []
            await asyncio.sleep(wait_s)
            while True:
                missing = [
                    *await machine_workloads.unready_pods(client),
                    *(_fell_over(child) for child in self._children if child.restarts),
                ]
                if missing != told:
                    passed = asyncio.get_running_loop().time() - started
                    self._console.print(
                        f"Not ready after {passed:.0f} s:", *missing, sep="\n  ", markup=False, soft_wrap=True
                    )
                    told = missing
                await asyncio.sleep(EXPLAIN_S)

        task = asyncio.create_task(explain())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _apply(client: cluster.Client, manifests: list[Manifest]) -> str:
    outcomes = await applying.apply_all(client, manifests)
    refused = [outcome for outcome in outcomes if outcome.error]
    if refused:
        lines = [f"{outcome.manifest.source}: {outcome.error}" for outcome in refused]
        files = dict.fromkeys(outcome.manifest.file for outcome in refused if outcome.manifest.file != "-")
        if files:
            named = " ".join(f"-f {shlex.quote(file)}" for file in files)
            lines.append(f"To see the line and a fix for each error: headgate validate {named}")
        raise StartError("\n".join([f"{len(refused)} of {len(outcomes)} objects were rejected:", *lines]))
    applied = sum(outcome.changed for outcome in outcomes)
    return f"{applied} applied, {len(outcomes) - applied} kept as you left them"


class _EndpointState(msgspec.Struct):
    address: str


class _GatewayState(msgspec.Struct):
    pools: dict[str, list[_EndpointState]] = {}


async def _answers(endpoints: list[_EndpointState]) -> bool:
    """Whether there are endpoints and each accepts a connection.

    After a node was killed, its Pods still have status ready until the next node has checked them.
    """
    for endpoint in endpoints:
        host, _, port = endpoint.address.rpartition(":")
        try:
            async with asyncio.timeout(1.0):
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except OSError:
            return False
        writer.close()
    return bool(endpoints)


async def _gateway_state(http: httpx2.AsyncClient, base: str, token: Path | None) -> _GatewayState | None:
    """The gateway's routing state; None while it does not respond or is not ready."""
    with contextlib.suppress(httpx2.HTTPError, OSError):
        headers = admin_token.of_file(token) if token is not None else {}
        if (await http.get(f"{base}/readyz")).status_code == 200:
            shown = await http.get(f"{base}/debug/config", headers=headers)
            if shown.status_code == 200:
                return msgspec.json.decode(shown.content, type=_GatewayState)
    return None


def _routed_pools(snapshot: routing.Snapshot) -> set[str]:
    """Names of the pools that exist and that at least one route names, but for those that requests start."""
    named = {target.pool for route in snapshot.routes() for rule in route.rules for target in rule.targets}
    return {pool.name for key, pool in snapshot.pools.items() if key in named and pool.start is None}


def _models(snapshot: routing.Snapshot) -> list[str]:
    return sorted(name for name, routes in snapshot.models.items() if not routes[0].is_reserved)


async def _snapshot(client: cluster.Client) -> routing.Snapshot:
    """The objects as a gateway sees them."""
    return (await sources.fetch_objects(client)).snapshot()


def _why_it_ended(child: Child, state: Path) -> str:
    """The error of a process that ended during its start; if the disk is full, its log may be empty."""
    lines = child.last_lines(1)
    if lines and lines[0].startswith(_ERROR):
        return lines[0].removeprefix(_ERROR)
    if shutil.disk_usage(state).free < _NEEDED_BYTES:
        return no_space(state)
    return _fell_over(child)


def _fell_over(child: Child) -> str:
    lines = "\n    ".join(child.last_lines(5))
    return f"the {child.name} did not start; the last lines of {child.log_path}:\n    {lines}"


def _summary(options: Options, snapshot: routing.Snapshot) -> str:
    lines = ["", f"Headgate is up. The API is at {options.url}/v1", ""]
    asked = _models(snapshot)[:1]
    lines += [f"  Ask:   {curl(options.url, model, needs_key=options.needs_keys)}" for model in asked]
    token = options.admin_token
    lines += [
        f"  See:   {options.admin_url}/dashboard" + (f" with the token in {token}" if token else ""),
        f"  Look:  kubectl --kubeconfig {options.kubeconfig} get {_worth_a_look(snapshot)}",
        f"  Logs:  {options.state / 'logs'}",
        "",
        "Ctrl-C stops it; the objects are kept.",
    ]
    return "\n".join(lines)


def curl(url: str, model: str, *, needs_key: bool = False) -> str:
    """A command line that asks a model."""
    key = " -H 'authorization: Bearer KEY'" if needs_key else ""
    body = json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": "Hello"}]})
    return f"curl -N {url}/v1/chat/completions{key} -H 'content-type: application/json' -d '{body}'"


def _worth_a_look(snapshot: routing.Snapshot) -> str:
    """The kinds that define routing here, as kubectl arguments."""
    is_inference = any(pool.kind != routing.MODEL_SERVER for pool in snapshot.pools)
    is_kthena = not is_inference or any(pool.kind == routing.MODEL_SERVER for pool in snapshot.pools)
    kinds = ["pods", *(["modelservers", "modelroutes"] if is_kthena else [])]
    return ",".join([*kinds, *(["inferencepools", "inferencemodels"] if is_inference else [])])
