"""Options shared by several commands, with the same meaning everywhere.

`--state` names the state directory of one machine (`headgate up`): objects and kubeconfig of its API server,
records of its node, and logs. Every command that runs or talks to an API server has it.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import click
from click.core import ParameterSource

from headgate.cli.machine_state import APISERVER_PORT_VARIABLE, STATE, STATE_VARIABLE, said_state

Command: TypeAlias = Callable[..., Any]


def _of_group(context: click.Context, parameter: click.Parameter, value: Path) -> Path:
    """The value given to the command's group, if the command itself was given none."""
    if context.get_parameter_source("state") is ParameterSource.COMMANDLINE:
        return value
    return (said_state(context.parent) if context.parent else None) or value


state = click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    default=STATE,
    envvar=STATE_VARIABLE,
    show_envvar=True,
    callback=_of_group,
    help="State directory of `headgate up` or `headgate apiserver`: objects, keys, kubeconfig, logs.",
)
_STATE = state
_ORDER = "--state, $KUBECONFIG, .headgate/kubeconfig, the in-cluster account, ~/.kube/config"
_KUBECONFIG = click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"API server to work with. Default: {_ORDER}.",
)
namespaces = click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    help="Only objects of this namespace; repeatable. Default: all.",
)
apiserver_port = click.option(
    "--apiserver-port",
    default=6443,
    type=click.IntRange(1, 65535),
    envvar=APISERVER_PORT_VARIABLE,
    show_envvar=True,
    help="Port of the Kubernetes API of a machine that is started.",
)
page_token_file = click.option(
    "--page-token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="HEADGATE_PAGE_TOKEN_FILE",
    show_envvar=True,
    help="File with a token that the pages on the metrics port need, except health. Default: none.",
)
log_level = click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    help="Log level on standard error.",
)


def files(command: Command) -> Command:
    """Manifests given with -f or as plain arguments: `-f a.yaml -f b.yaml` and `-f *.yaml` both work."""

    @functools.wraps(command)
    def with_files(named: tuple[str, ...], more: tuple[str, ...], **given: Any) -> Any:
        if not named and not more:
            raise click.UsageError("no manifests: name files, directories, or - with -f")
        return command(files=(*named, *more), **given)

    path = click.Path(allow_dash=True)
    option = click.option(
        "-f",
        "--filename",
        "named",
        multiple=True,
        type=path,
        metavar="FILE|DIRECTORY|-",
        help="Manifests in YAML or JSON, with one or more documents; repeatable. -: standard input.",
    )
    return option(click.argument("more", nargs=-1, type=path, metavar="[FILE|DIRECTORY|-]...")(with_files))


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, in the order in which help shows them."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def output(*forms: str, help: str = "Output format.") -> Callable[[Command], Command]:
    """The option for the output format; the first format is the default."""
    return click.option("-o", "--output", type=click.Choice(forms), default=forms[0], help=help)


recursive = click.option("-R", "--recursive", is_flag=True, help="Search the directories of -f recursively.")


def server(command: Command) -> Command:
    """Options that select the API server, passed as one argument `server`."""

    @functools.wraps(command)
    def with_server(kubeconfig: Path | None, context: str | None, state: Path, **given: Any) -> Any:
        from headgate.cli.objects.connecting import Server

        said = said_state(click.get_current_context())
        return command(server=Server(kubeconfig, context, said), **given)

    which = click.option("--context", help="Kubeconfig context. Default: the current one.")
    path = click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path, dir_okay=False),
        help=f"API server to talk to. Default: {_ORDER}.",
    )
    return path(which(_STATE(with_server)))


def process(command: Command) -> Command:
    """Options of a long-running process: `kubeconfig` of its API server, and `state`, the machine's
    directory.

    `kubeconfig` is None for $KUBECONFIG, the in-cluster account, or ~/.kube/config.
    """

    @functools.wraps(command)
    def with_kubeconfig(kubeconfig: Path | None, state: Path, **given: Any) -> Any:
        from headgate.cli.objects.connecting import Server

        found = Server(kubeconfig, None, said_state(click.get_current_context())).own
        return command(kubeconfig=found, state=state, **given)

    return _KUBECONFIG(_STATE(with_kubeconfig))


_SLOWEST, _FASTEST = 0.001, 1e6
"""Requests per second: beyond, virtual time would take too long, or overflow."""


def seconds(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """Parse 90, 90s or 1m30s as seconds."""
    from headgate.kubeschema import duration

    if text is None:
        return None
    try:
        found = float(text) if text.replace(".", "", 1).isdigit() else duration.parse(text)
    except duration.DurationError:
        found = -1.0
    if found < 0:
        raise click.BadParameter(f"{text!r} is not a time such as 2s, 500ms or 1m30s", ctx, param)
    return found


def pace(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """A rate, or a factor for one."""
    if text is None:
        return None
    found = paces(ctx, param, text)
    if len(found) != 1:
        raise click.BadParameter(f"{text!r} is more than one number", ctx, param)
    return found[0]


def paces(ctx: click.Context, param: click.Parameter, text: str | None) -> list[float]:
    """Several comma-separated numbers."""
    try:
        found = [float(part) for part in text.split(",")] if text is not None else []
    except ValueError:
        found = [-1.0]
    if not all(_SLOWEST <= number <= _FASTEST for number in found):
        wanted = f"numbers from {_SLOWEST:g} to {_FASTEST:,.0f} such as 4,6,8"
        wanted = wanted if param.name == "rates" else f"a number from {_SLOWEST:g} to {_FASTEST:,.0f}"
        raise click.BadParameter(f"{text!r} is not {wanted}", ctx, param)
    return found
