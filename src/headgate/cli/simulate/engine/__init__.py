"""`headgate simulate engine`: one simulated engine over HTTP. A file here for each kind of option."""

from headgate.cli.simulate.engine.command import engine

__all__ = ["engine"]
