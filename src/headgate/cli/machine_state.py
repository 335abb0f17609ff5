"""Where `headgate up` keeps what its machine has, and how a command line names that place."""

import os
from pathlib import Path

import click
from click.core import ParameterSource

STATE = Path(".headgate")
"""Where `headgate up` keeps everything, below the directory that it is started in."""
STATE_VARIABLE = "HEADGATE_STATE"
APISERVER_PORT_VARIABLE = "HEADGATE_APISERVER_PORT"
GATEWAY_FILE = "gateway"
"""File in it with the URL of the admin port of its gateway."""
DEFAULT_GATEWAY = "http://localhost:8081"
"""The admin port of a gateway that was not told another one."""


def said_state(context: click.Context) -> Path | None:
    """The --state of the command line, which may stand behind a command or its group; None without one.

    The environment and the default are no such thing: they yield to $KUBECONFIG.
    """
    at: click.Context | None = context
    while at is not None:
        if at.get_parameter_source("state") is ParameterSource.COMMANDLINE:
            found: Path = at.params["state"]
            return found
        at = at.parent
    return None


def usual() -> Path:
    """The directory that is meant where the command line says none."""
    return Path(os.environ.get(STATE_VARIABLE) or STATE)
