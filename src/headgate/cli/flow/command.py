"""`headgate flow`: the command."""

from __future__ import annotations

import time
from pathlib import Path

import click

from headgate.cli import machine_state, options

WATCH_S = 1.0


@click.command()
@click.option(
    "--gateway",
    metavar="URL",
    help="URL of the gateway's admin port. Default: the one recorded in --state, "
    f"{machine_state.DEFAULT_GATEWAY}.",
)
@options.state
@click.option("--pool", metavar="NAME", help="Only pools with this name, as namespace/name.")
@options.output("text", "json")
@click.option("-w", "--watch", is_flag=True, help="Refresh every second until interrupted.")
def flow(gateway: str | None, state: Path, pool: str | None, output: str, watch: bool) -> None:
    """Show queued requests: tenant, priority and the reason they wait.

    Prints the saturation of each pool, and its queued requests by priority and flow.

    Example: headgate flow --pool default/sim-8b --watch
    """
    from headgate.cli.flow import queues

    gateway = gateway or queues.of_machine(machine_state.said_state(click.get_current_context()), state)
    render = queues.as_json if output == "json" else queues.as_text
    while True:
        click.echo(render(queues.ask(gateway, pool)), nl=False)
        if not watch:
            return
        time.sleep(WATCH_S)
        if output == "text":
            click.echo()
