"""What the commands of `headgate plan` work with: a system description, or the objects of a server."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from headgate.cli import options
from headgate.cli.objects.commands import namespace_option

if TYPE_CHECKING:
    from headgate.cli.objects.connecting import Server
    from headgate.cli.plan.living import Learned
    from headgate.planning.changing import Demand
    from headgate.planning.system import System

_MOST_BYTES = 64 * 2**20
file_argument = functools.partial(
    click.argument, "file", type=click.Path(exists=True, dir_okay=False, allow_dash=True)
)


@dataclass(frozen=True)
class Source:
    """A file, or without one, a server and the namespaces of the objects."""

    file: str | None
    server: Server
    namespace: str | None
    all_namespaces: bool
    planning_namespace: str


@dataclass(frozen=True)
class Found:
    """A system, and what is to be said about its objects."""

    system: System
    problems: Mapping[str, Sequence[str]]
    """By object, or "configuration" for those of no object."""
    unplanned: Sequence[str] = ()
    """What is known about objects without a load, a line for each."""
    others: Sequence[Demand] = ()
    """Demands that are not in the system: the load of their models is known without them."""
    learned: Mapping[str, Learned] = field(default_factory=dict)
    """Of servers whose profile the controller has learned."""


def file_or_server(command: options.Command) -> options.Command:
    """The argument and the options that make a Source, passed as one argument `source`."""

    @functools.wraps(command)
    def with_source(
        file: str | None,
        server: Server,
        namespace: str | None,
        all_namespaces: bool,
        planning_namespace: str,
        **given: Any,
    ) -> Any:
        return command(source=Source(file, server, namespace, all_namespaces, planning_namespace), **given)

    wrapped: options.Command = with_source
    for option in (
        options.server,
        click.option(
            "--planning-namespace",
            metavar="NAMESPACE",
            default="workload-variant-autoscaler-system",
            show_default=True,
            help="Namespace of the ConfigMaps that VariantAutoscalings are planned by.",
        ),
        click.option("-A", "--all-namespaces", is_flag=True, help="Objects of all namespaces."),
        namespace_option,
        file_argument(required=False),
    ):
        wrapped = option(wrapped)
    return wrapped


def described(file: str) -> System:
    """Read a description; all of its errors are printed before the command ends."""
    from headgate.cli.objects import printing
    from headgate.planning import system

    name = "standard input" if file == "-" else file
    with click.open_file(file, "rb") as opened:
        data = opened.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise click.ClickException(f"{name} has more than {_MOST_BYTES} bytes")
    try:
        return system.read(data)
    except system.SystemErrors as errors:
        for error in errors.errors:
            click.echo(printing.escaped(f"{name}: {error.message()}"), err=True)
        sys.exit(1)


def read(source: Source, demands: Sequence[Demand]) -> Found:
    """A description with other demands, or objects, with those for models without a load. Raises
    ChangeError."""
    from headgate.planning import assembling, changing

    if source.file is not None:
        return Found(changing.changed(described(source.file), demands), {})
    from headgate.cli.objects import connecting
    from headgate.cli.plan import living

    def of_server(client: Any) -> Any:
        namespace = None if source.all_namespaces else source.namespace or client.namespace
        return living.read(client, namespace, source.planning_namespace, demands)

    found: living.Living = connecting.run(source.server, of_server)
    if not found.objects:
        where = "" if source.all_namespaces else " in this namespace; -A takes those of all"
        told = f"there are no VariantAutoscalings{where}; name a FILE to work with a system description"
        raise click.ClickException(told)
    problems = {str(key): [each.message for each in told] for key, told in found.assembly.problems.items()}
    shown = {each for listed in problems.values() for each in listed}
    if others := [each.message for each in found.problems if each.message not in shown]:
        problems["configuration"] = others
    learned = {assembling.server_name(key): each for key, each in found.learned.items()}
    return Found(found.assembly.system, problems, living.unplanned(found), found.others, learned)
