"""`headgate simulate engine`: one simulated engine over HTTP. One file for each group of options."""

from headgate.cli.simulate.engine.command import engine

__all__ = ["engine"]
