"""`headgate simulate`: simulated inference engines on the command line."""

import click

from headgate.cli.simulate.engine import engine
from headgate.cli.simulate.fleet import fleet
from headgate.cli.simulate.profiles import profiles
from headgate.cli.simulate.standing_in import stand_in
from headgate.cli.simulate.trace import trace


@click.group(short_help="Run simulated engines, and replay traces over fleets of them.")
def simulate() -> None:
    """Simulated inference engines: one over HTTP, or a fleet of them in virtual time, without a GPU."""


simulate.add_command(engine)
simulate.add_command(stand_in)
simulate.add_command(fleet)
simulate.add_command(profiles)
simulate.add_command(trace)
