"""The state directory of `headgate up`, and how command lines name it."""

import os
from pathlib import Path

import click
from click.core import ParameterSource

STATE = Path(".headgate")
"""The default state directory, below the directory where `headgate up` was started."""
STATE_VARIABLE = "HEADGATE_STATE"
APISERVER_PORT_VARIABLE = "HEADGATE_APISERVER_PORT"
GATEWAY_FILE = "gateway"
"""File in it with the URLs of the gateway's admin port and of its inference API, a line each."""
ADMIN_CREDENTIAL = "admin-token"
"""File in it with the token of the gateway's metrics and admin pages, if its clients need credentials."""
DEFAULT_GATEWAY = "http://localhost:8081"
"""The default admin port of a gateway."""


def said_state(context: click.Context) -> Path | None:
    """The --state of the command line, given after a command or its group; None if there is none.

    A value from the environment or the default does not count: $KUBECONFIG takes precedence over those.
    """
    at: click.Context | None = context
    while at is not None:
        if at.get_parameter_source("state") is ParameterSource.COMMANDLINE:
            found: Path = at.params["state"]
            return found
        at = at.parent
    return None


def gateway_urls(state: Path) -> list[str]:
    """Admin port and inference API, as `headgate up` recorded them. Raises OSError."""
    return (state / GATEWAY_FILE).read_text().split()


def usual() -> Path:
    """The state directory if the command line names none."""
    return Path(os.environ.get(STATE_VARIABLE) or STATE)
