"""`headgate autoscale`: the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headgate.cli import options
from headgate.cli.autoscale.replay import replay
from headgate.cli.objects.commands import namespace_option

if TYPE_CHECKING:
    from headgate.cli.objects.connecting import Server


@click.group()
def autoscale() -> None:
    """Explain how replicas are decided, and try out policies."""


def _bindings(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from headgate.cli.objects.completing import complete_binding

    return complete_binding(context, parameter, incomplete)


@autoscale.command()
@click.argument("binding", shell_complete=_bindings)
@namespace_option
@options.output("text", "json")
@options.server
def explain(server: Server, binding: str, namespace: str | None, output: str) -> None:
    """Show why an AutoscalingPolicyBinding has as many replicas as it has.

    Prints the last decision as a sentence, the targets, the metrics, and the limits of the policy.

    Example: headgate autoscale explain sim-8b
    """
    from headgate.cli.autoscale import explaining
    from headgate.cli.objects import connecting

    connecting.run(server, lambda client: explaining.explain(client, namespace, binding, output))


autoscale.add_command(replay)
