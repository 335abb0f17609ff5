"""The command line: `headgate up` runs everything on one machine; other commands run one process each.

Parses arguments and files and passes them to the other packages. Each command is imported only when it is
called, so that `headgate --help` and shell completion stay fast.
"""

import difflib
import importlib
import os
import sys
from collections.abc import Collection
from typing import Any

import click

_COMMANDS = {
    "up": "headgate.cli.up:up",
    "serve": "headgate.cli.model.command:serve",
    "apply": "headgate.cli.objects.commands:apply",
    "get": "headgate.cli.objects.commands:get",
    "describe": "headgate.cli.objects.commands:describe",
    "delete": "headgate.cli.objects.commands:delete",
    "validate": "headgate.cli.validate:validate",
    "route": "headgate.cli.route.command:route",
    "autoscale": "headgate.cli.autoscale.command:autoscale",
    "plan": "headgate.cli.plan.command:plan",
    "profile": "headgate.cli.profile.command:profile",
    "bench": "headgate.cli.bench.command:bench",
    "flow": "headgate.cli.flow.command:flow",
    "gateway": "headgate.cli.gateway:gateway",
    "key": "headgate.cli.key.command:key",
    "picker": "headgate.cli.picker.command:picker",
    "body-router": "headgate.cli.picker.body_router:body_router",
    "apiserver": "headgate.cli.apiserver:apiserver",
    "node": "headgate.cli.node:node",
    "controller": "headgate.cli.controller:controller",
    "webhook": "headgate.cli.webhook:webhook",
    "download": "headgate.cli.download:download",
    "runtime": "headgate.cli.runtime:runtime",
    "cache": "headgate.cli.cache:cache",
    "simulate": "headgate.cli.simulate:simulate",
    "health": "headgate.cli.health:health",
    "explain-field": "headgate.cli.explain_field:explain_field",
    "crds": "headgate.cli.crds:crds",
    "convert": "headgate.cli.convert:convert",
    "import": "headgate.cli.importing.command:import_",
    "completion": "headgate.cli.completion:completion",
    "version": "headgate.cli.version:version",
}


_AS_NEAR = 0.05
"""Suggest every command whose similarity is within this much of the best match."""
_INTERRUPTED = 130
_PIPE_CLOSED = 141
"""Exit codes that shells report for SIGINT and SIGPIPE."""


def _open_standard_streams() -> None:
    """Open any of the descriptors 0, 1 and 2 that the parent process closed.

    Otherwise the system assigns them to the next sockets or files, and log lines would be written there.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != descriptor:
                os.dup2(null, descriptor)
                os.close(null)
            os.set_inheritable(descriptor, True)


def _nearest(word: str, known: Collection[str]) -> list[str]:
    """Return the most similar words: the best match and those almost as similar."""
    likeness = {each: difflib.SequenceMatcher(None, each, word).ratio() for each in known}
    return [each for each in known if likeness[each] >= max(likeness.values()) - _AS_NEAR]


class _LazyGroup(click.Group):
    """Imports commands on first use; exits quietly when interrupted."""

    def invoke(self, ctx: click.Context) -> Any:
        _open_standard_streams()
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            near = _nearest(error.option_name, error.possibilities or ())
            raise click.NoSuchOption(error.option_name, possibilities=near, ctx=error.ctx) from None
        except KeyboardInterrupt:
            ctx.exit(_INTERRUPTED)
        except BrokenPipeError:
            # The rest of the buffer has no reader; flushing it at exit must not fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(_PIPE_CLOSED)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            close = difflib.get_close_matches(args[0], _COMMANDS, 1, 0.5)
            hint = f" Did you mean {close[0]}?" if close else f" Commands: {', '.join(_COMMANDS)}."
            raise click.UsageError(f"Unknown command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
)
@click.version_option(package_name="headgate")
def main() -> None:
    """Headgate: control plane and gateway for LLM inference.

    Start with `headgate up examples/quickstart`.
    """


__all__ = ["main"]
