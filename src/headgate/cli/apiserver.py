"""`headgate apiserver`: run the embedded API server alone, and manage its access tokens."""

from __future__ import annotations

import asyncio
import datetime
import json
from pathlib import Path

import click

from headgate import allocator, garbage
from headgate import apiserver as server
from headgate.cli import options, process, supervisor
from headgate.cli.objects import printing

_OUTPUT = options.output("text", "json")


@click.group(invoke_without_command=True)
@options.state
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=6443,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--max-objects",
    type=click.IntRange(1),
    default=server.Config.max_objects,
    help="Maximum number of objects; beyond that, creates are rejected.",
)
@options.log_level
@click.pass_context
def apiserver(
    context: click.Context, state: Path, host: str, port: int, max_objects: int, log_level: str
) -> None:
    """Serve the Kubernetes API on this machine; objects are stored in one SQLite file."""
    if context.invoked_subcommand:
        return

    async def main(stop: asyncio.Event) -> None:
        try:
            config = server.Config(state, host, port, max_objects=max_objects)
            await server.serve(config, stop=stop, on_ready=_tell)
        except server.StateError as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            if error.errno in supervisor.NO_SPACE:
                raise click.ClickException(supervisor.no_space(state)) from error
            raise

    try:
        supervisor.make_state(state)
    except supervisor.StateUnusable as error:
        raise click.ClickException(str(error)) from error
    process.run(main, log_level=log_level)


def _tell(running: server.Running) -> None:
    garbage.spare_what_there_is()
    allocator.return_large_blocks()
    process.say(f"API server ready at {running.url}, kubeconfig {running.kubeconfig}")


@apiserver.group()
def token() -> None:
    """Grant and revoke access to the API server; a running server applies changes immediately."""


@token.command()
@click.argument("name")
@click.option("--admin", is_flag=True, help="Allow everything. Default: read everything except Secrets.")
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a kubeconfig with the token to this file instead of printing the token.",
)
@options.state
@_OUTPUT
def create(name: str, admin: bool, kubeconfig: Path | None, state: Path, output: str) -> None:
    """Create a token for NAME. It is shown only once."""
    own = state / "kubeconfig"
    if kubeconfig and not own.exists():
        raise click.ClickException(f"{own} does not exist yet: start the API server once, then try again")
    role: server.Role = "admin" if admin else "read-only"
    try:
        made = server.Tokens(state).create(name, role, datetime.datetime.now(datetime.UTC))
    except server.TokenError as error:
        raise click.ClickException(str(error)) from error
    if kubeconfig is not None:
        server.write_kubeconfig_for(own, kubeconfig, name, made)
    if output == "json":
        where = {"kubeconfig": str(kubeconfig)} if kubeconfig else {"token": made}
        click.echo(json.dumps({"name": name, "role": role, **where}, indent=4))
    elif kubeconfig is None:
        click.echo(made)
    else:
        click.echo(f"{kubeconfig} gives {name} access to the API server ({role})")


@token.command(name="list")
@options.state
@_OUTPUT
def list_tokens(state: Path, output: str) -> None:
    """List who has a token. The tokens themselves cannot be shown again."""
    if not state.is_dir():
        raise click.ClickException(f"{state} does not exist: no API server has stored its state there")
    try:
        tokens = server.Tokens(state).list()
    except server.TokenError as error:
        raise click.ClickException(str(error)) from error
    if output == "json":
        rows = [{"name": t.name, "role": t.role, "created": t.created.replace("+00:00", "Z")} for t in tokens]
        click.echo(json.dumps(rows, indent=4))
        return
    columns = [printing.Column(name) for name in ("name", "role", "created")]
    printer = printing.Printer(columns, wide=True, with_namespace=False, with_labels=False)
    listed = [printing.Row([t.name, t.role, t.created.replace("+00:00", "Z")]) for t in tokens]
    for line in printer.lines(listed, with_headings=True):
        click.echo(line)


@token.command()
@click.argument("name")
@options.state
def revoke(name: str, state: Path) -> None:
    """Revoke the token of NAME."""
    try:
        server.Tokens(state).revoke(name)
    except server.TokenError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"the token of {name} is revoked")
