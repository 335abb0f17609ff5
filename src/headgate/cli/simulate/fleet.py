"""`headgate simulate fleet`: serve many simulated engines over HTTP, in one process."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from headgate.cli.simulate.completing import complete_profile

if TYPE_CHECKING:
    from headgate.cli.simulate.fleet_sections import Settled
    from headgate.simulator.fleet import FleetDescription
    from headgate.simulator.server import Served, ServerSettings

_REPLICAS = 8
_LAST_PORT = 65535


@click.command(short_help="Serve a fleet of simulated engines over HTTP.")
@click.argument("file", required=False, type=click.Path(allow_dash=True), metavar="[FILE]")
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option(
    "--port",
    default=8000,
    type=click.IntRange(0, 65535),
    help="Port of the first engine; the others use the following ports. 0 takes free ones.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    default=("simulated",),
    help="Served model name; repeat it for aliases.",
)
@click.option(
    "--replicas", type=click.IntRange(1, 1000), help="Instead of FILE: number of equal engines.  [default: 8]"
)
@click.option(
    "--profile",
    shell_complete=complete_profile,
    help="Their profile; `headgate simulate profiles` lists them.  [default: 8b-h100]",
)
@click.option(
    "--engine",
    "constants",
    multiple=True,
    metavar="NAME=NUMBER",
    help="Engine constant, such as kv_blocks=600; repeatable.",
)
@click.option("--seed", type=int, default=0, help="Equal seeds produce equal texts.")
def fleet(
    file: str | None,
    host: str,
    port: int,
    models: tuple[str, ...],
    replicas: int | None,
    profile: str | None,
    constants: tuple[str, ...],
    seed: int,
) -> None:
    """Serve the engines of a fleet file, each on its own port, until Ctrl-C.

    FILE has the format of `headgate simulate trace --fleet`: its groups become endpoints named group-0,
    group-1, ..., and its faults are injected. Its gateway settings apply to replays only.

    \b
    Examples:
      headgate simulate fleet examples/simulate/fleet.yaml --model tiny
      headgate simulate fleet --replicas 100 --profile fast --port 9000
    """
    from headgate.simulator import server

    described = _described(file, replicas, profile, constants)
    last = port + sum(group.count for group in described.groups) - 1
    if port and last > _LAST_PORT:
        raise click.UsageError(f"--port: the last engine would have port {last}; start with a smaller one")
    with contextlib.ExitStack() as opened:
        served = []
        store = described.new_store()
        for number, settings in enumerate(_settings(described, models, seed)):
            sock = opened.enter_context(contextlib.closing(_listen(host, port + number if port else 0)))
            served.append(server.Served(settings, sock, store=store))
        try:
            server.run(served, lambda: _tell(served))
        except OSError as error:
            raise click.ClickException(str(error)) from error


def _described(
    file: str | None, replicas: int | None, profile: str | None, constants: tuple[str, ...]
) -> FleetDescription:
    from headgate.cli.simulate import fleet_file
    from headgate.cli.simulate.strict import SettingErrors
    from headgate.simulator.model import DEFAULT_PROFILE

    alone = {"--replicas": replicas, "--profile": profile, "--engine": constants}
    if file is not None and (given := [flag for flag, value in alone.items() if value]):
        raise click.UsageError(f"{', '.join(given)}: already set by the file; change it there")
    settled: Settled
    if file is None:
        numbers = fleet_file.parse_constants(constants)
        _, settled = fleet_file.from_flags(replicas or _REPLICAS, profile or DEFAULT_PROFILE, numbers, [])
    else:
        try:
            _, settled = fleet_file.from_file(file, [])
        except SettingErrors as errors:
            click.echo(errors.shown(), err=True)
            sys.exit(1)
    assert settled.fleet is not None
    return settled.fleet


def _settings(described: FleetDescription, models: tuple[str, ...], seed: int) -> Iterator[ServerSettings]:
    import msgspec

    from headgate.simulator import server

    failures = server.FailureSettings(faults=msgspec.to_builtins(described.faults.faults))
    for group in described.groups:
        for number in range(group.count):
            yield server.ServerSettings(
                engine=group.engine,
                models=models,
                seed=seed,
                pod_name=f"{group.name}-{number}",
                role=group.role,
                failures=failures,
            )


def _listen(host: str, port: int) -> socket.socket:
    from headgate.simulator import server

    try:
        return server.listen(host, port)
    except OSError as error:
        message = (
            f"cannot listen on {host}:{port} for an engine of the fleet: {os.strerror(error.errno or 0)}; "
            "choose another address with --host or --port, the port of the first engine"
        )
        raise click.ClickException(message) from error


def _tell(served: list[Served]) -> None:
    for each in served:
        host, port = each.sock.getsockname()[:2]
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        click.echo(f"{each.settings.pod_name} on http://{address}")
    click.echo(f"simulating {len(served)} engines")
