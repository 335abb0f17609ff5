"""The command: turn options into settings, and serve them."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.simulate import sizes
from headgate.cli.simulate.engine.constants import (
    ENGINE,
    EVENTS,
    JITTER,
    LATENCIES,
    LATENCY_NAMES,
    SPECULATION,
    kv_events_config,
    latency_note,
    latency_settings,
)
from headgate.cli.simulate.engine.options import SpacedCommand
from headgate.cli.simulate.engine.serving import FAILURES, IGNORED, PAIRS, PLACE, PROTOCOLS, SERVER

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from headgate.simulator.model import EngineConfig, EngineProfile
    from headgate.simulator.server import FailureSettings, Served, ServerSettings

_LAST_PORT = 65535


@click.command(cls=SpacedCommand, short_help="Serve the OpenAI API from a simulated engine.")
@PLACE
@ENGINE
@LATENCIES
@JITTER
@SPECULATION
@SERVER
@EVENTS
@PAIRS
@FAILURES
@PROTOCOLS
@IGNORED
def engine(
    host: str,
    port: int,
    profile: EngineProfile,
    bootstrap_port: int,
    one_port: bool,
    external_lb: bool,
    only_rank: int | None,
    **given: Any,
) -> None:
    """Serve the OpenAI API from a simulated engine, with the metrics of a real one.

    Options without a default here use the value of the profile.
    """
    if one_port and (external_lb or only_rank is not None):
        other = "external-lb" if external_lb else "rank"
        raise click.UsageError(f"--data-parallel-internal-lb cannot be combined with --data-parallel-{other}")
    try:
        settings = list(_of_ranks(_settings(profile, given), only_rank, one_port=one_port))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    meets = settings[0].api == "sglang" and settings[0].role == "prefill"
    _serve(settings, host, port, profile.name, bootstrap_port if meets else None)


def _of_ranks(settings: ServerSettings, only: int | None, *, one_port: bool) -> Iterator[ServerSettings]:
    """Settings of one server for each rank, for all ranks, or for a single rank. Raises ValueError."""
    import msgspec

    size = settings.data_parallel_size
    if only is not None and only >= size > 1:
        raise ValueError(f"--data-parallel-rank: there is no rank {only} with --data-parallel-size {size}")
    if one_port:
        yield settings
        return
    for rank in range(size) if only is None else [only]:
        yield msgspec.structs.replace(settings, data_parallel_size=1, data_parallel_rank=rank)


def _settings(profile: EngineProfile, given: dict[str, Any]) -> ServerSettings:
    """Settings from the options; with few exceptions, options are named after settings. Raises ValueError."""
    from headgate.simulator import server

    policy, modules = (given.pop(name) for name in ("scheduling_policy", "lora_modules"))
    kv_events = kv_events_config(given)
    served, models = given.pop("served_models"), given.pop("models")
    failures = [given.pop(name) for name in ("failure_injection_rate", "failure_types", "faults")]
    body_mb = given.pop("max_body_mb")
    times = latency_settings({name: given.pop(name) for name in LATENCY_NAMES})
    if note := latency_note(times):
        click.echo(note, err=True)
    given["seed"] = given["id_seed"] or 0
    own = {name: given.pop(name) for name in server.ServerSettings.__struct_fields__ if name in given}
    return server.ServerSettings(
        **own,
        engine=_override(profile.config, given | {"by_priority": policy == "priority"}),
        models=served or models,
        max_body_bytes=body_mb * 1024 * 1024,
        failures=_failures(times, *failures),
        lora_modules=tuple(map(server.parse_module, modules)),
        kv_events=kv_events,
    )


def _serve(
    ranks: list[ServerSettings], host: str, port: int, profile: str, bootstrap_port: int | None
) -> None:
    from headgate.simulator import model, server

    with contextlib.ExitStack() as opened:
        served = []
        store = model.RemoteStore(ranks[0].engine.remote_kv_blocks)
        for number, settings in enumerate(ranks):
            sock = opened.enter_context(_listen(host, _port_of(number, port, "--port"), "--port"))
            bootstrap = None
            if bootstrap_port is not None:
                own = _port_of(number, bootstrap_port, "--bootstrap-port")
                bootstrap = opened.enter_context(_listen(host, own, "--bootstrap-port"))
            served.append(server.Served(settings, sock, bootstrap, store))
        try:
            server.run(served, lambda: click.echo("\n".join(_told(each, host, profile) for each in served)))
        except OSError as error:
            raise click.ClickException(str(error)) from error


def _port_of(number: int, port: int, option: str) -> int:
    """The port of server `number` in this process, counted from `port`; 0 takes a free one."""
    own = port + number if port else 0
    if own > _LAST_PORT:
        raise click.UsageError(f"{option}: the last rank would have port {own}; start with a smaller one")
    return own


def _told(served: Served, host: str, profile: str) -> str:
    settings, port = served.settings, served.sock.getsockname()[1]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    scheme = "https" if settings.speaks_tls else "http"
    told = f"simulating {', '.join(settings.models)} ({profile}) on {scheme}://{address}"
    if served.bootstrap is not None:
        told += f", bootstrap on port {served.bootstrap.getsockname()[1]}"
    return told


def _failures(
    latencies: dict[str, Any],
    rate: float,
    types: tuple[str, ...],
    path: str | None,
) -> FailureSettings:
    """Failure settings; raises ValueError that names the option."""
    import msgspec
    import yaml

    from headgate.simulator.server import FAILURE_TYPES, FailureSettings

    given: dict[str, object] = {"failure_injection_rate": rate, **latencies}
    if types:
        given["failure_types"] = names = [name.strip() for each in types for name in each.split(",")]
        if unknown := [name for name in names if name not in FAILURE_TYPES]:
            raise ValueError(
                f"--failure-types: there is no {', '.join(map(repr, unknown))}; "
                f"there are {', '.join(FAILURE_TYPES)}"
            )
    if path is not None:
        with open(path) as file:
            try:
                given["faults"] = yaml.safe_load(file)
            except yaml.YAMLError as error:
                raise ValueError(f"--faults: {path} is not YAML: {error}") from error
        if not isinstance(given["faults"], list):
            raise ValueError(
                f"--faults: {path} must be a list, such as `- {{kind: slow, at_s: 60, factor: 4}}`"
            )
    try:
        return msgspec.convert(given, FailureSettings)
    except msgspec.ValidationError as error:
        raise ValueError(f"--faults: {path}: {error}") from error


_PURPOSES = {"--port": "the engine", "--bootstrap-port": "the bootstrap server of SGLang's prefill"}


def _listen(host: str, port: int, option: str) -> socket.socket:
    from headgate.simulator import server

    try:
        return server.listen(host, port)
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on {host}:{port} for {_PURPOSES[option]}: {os.strerror(error.errno or 0)}; "
            f"choose another address with --host or {option}"
        ) from error


def _override(config: EngineConfig, overrides: dict[str, Any]) -> EngineConfig:
    """`config` with the constants given on the command line. Raises ValueError."""
    import msgspec

    given = {name: value for name, value in overrides.items() if value is not None}
    if twice := sizes.said_twice(given):
        flags = [f"--{name} and --{blocks}".replace("_", "-") for name, blocks in twice]
        raise ValueError(f"{', '.join(flags)}: use only one of the two")
    block_size = given.get("block_size", config.block_size)
    given = sizes.in_blocks(given, block_size, given.get("kv_bytes_per_token", config.kv_bytes_per_token))
    costs = {name: given.pop(name) for name in config.costs.__struct_fields__ if name in given}
    return msgspec.structs.replace(config, costs=msgspec.structs.replace(config.costs, **costs), **given)
