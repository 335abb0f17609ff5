"""`headgate completion`: print the shell completion script."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    Load it with `eval "$(headgate completion bash)"`, or save it in your shell's completion directory.
    """
    from headgate.cli import main

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(main, {}, "headgate", "_HEADGATE_COMPLETE").source())
