"""`headgate version`: show the installed version."""

import click

from headgate.cli import options


@click.command()
@options.output("text", "json")
def version(output: str) -> None:
    """Show the version, and whether the data path is compiled."""
    import json

    from headgate import telemetry

    build = telemetry.installed()
    if output == "json":
        click.echo(json.dumps({**build._asdict(), "form": build.form}))
        return
    form = f"compiled: {build.compiled_modules} modules" if build.compiled_modules else "pure Python"
    click.echo(f"Headgate {build.version} on Python {build.python}, {form}")
