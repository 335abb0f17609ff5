"""Options of `headgate simulate engine` by what they are about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import click

Command: TypeAlias = Callable[..., Any]

_SECONDS = click.FloatRange(min=0)


def _options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, in the order in which help shows them."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


SPECULATION = _options(
    click.option(
        "--draft-tokens",
        type=click.IntRange(min=0),
        help="Tokens drafted in a step for each sequence (speculative decoding).",
    ),
    click.option(
        "--draft-acceptance",
        type=click.FloatRange(0, 1),
        help="How likely each of them is accepted, if those before it were.",
    ),
    click.option(
        "--draft-token-s", type=_SECONDS, help="Seconds for each token that a step drafts, for all together."
    ),
)
"""Constants of the engine, by their names."""
PROTOCOLS = _options(
    click.option(
        "--ssl-certfile",
        type=click.Path(dir_okay=False),
        help="Certificate in PEM, to serve https; read anew when it changes.",
    ),
    click.option("--ssl-keyfile", type=click.Path(dir_okay=False), help="Its key."),
    click.option("--grpc", is_flag=True, help="Answer vLLM's gRPC on the same port; needs headgate[grpc]."),
    click.option("--self-signed-certs", is_flag=True, help="Serve https by a certificate that is made up."),
)
"""Settings of the server, by their names."""
DATASET = _options(
    click.option(
        "--dataset-path",
        type=click.Path(dir_okay=False),
        help="Answers to give: SQLite as llm-d-inference-sim's, or conversations in .json or .jsonl.",
    ),
    click.option("--dataset-url", help="Where such a file is downloaded from first."),
    click.option(
        "--dataset-table-name", default="llmd", show_default=True, help="Table of a SQLite data set."
    ),
    click.option("--dataset-in-memory", is_flag=True, help="Read the data set into memory first."),
)
"""Settings of the server, by their names."""
IMAGES = _options(
    click.option(
        "--mm-encode-s",
        type=_SECONDS,
        default=0.0,
        show_default=True,
        help="Seconds that encoding an image takes, one after the other.",
    ),
    click.option(
        "--mm-cached-items",
        type=click.IntRange(min=0),
        default=1000,
        show_default=True,
        help="Encoded images that are kept for the next request that has them.",
    ),
)
"""Settings of the server, by their names."""
