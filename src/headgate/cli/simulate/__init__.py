"""`headgate simulate`: simulated inference engines on the command line."""

import click

from headgate.cli.simulate.engine import engine
from headgate.cli.simulate.profiles import profiles


@click.group()
def simulate() -> None:
    """Simulated inference engines: everything around an engine, without a GPU."""


simulate.add_command(engine)
simulate.add_command(profiles)
