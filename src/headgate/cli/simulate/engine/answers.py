"""Options for what is answered, by the names of the server's settings."""

from __future__ import annotations

import click

from headgate.cli.simulate.engine.grouping import options

PROMPTS = options(
    click.option(
        "--tokenizer",
        type=click.Path(exists=True, dir_okay=False),
        help="A tokenizer.json to count by, in place of four bytes a token; needs headgate[tokenizers].",
    ),
    click.option(
        "--force-dummy-tokenizer",
        is_flag=True,
        help="Count four bytes a token, whatever --tokenizer says.",
    ),
)


def _share(context: click.Context, parameter: click.Parameter, percent: float) -> float:
    return percent / 100


_PERCENT = click.FloatRange(0, 100)
TOOLS = options(
    click.option(
        "--min-tool-call-integer-param",
        "least_integer",
        type=int,
        default=0,
        show_default=True,
        help="Least made-up integer where a schema sets none.",
    ),
    click.option(
        "--max-tool-call-integer-param",
        "most_integer",
        type=int,
        default=100,
        show_default=True,
        help="Largest one.",
    ),
    click.option(
        "--min-tool-call-number-param",
        "least_number",
        type=float,
        default=0.0,
        show_default=True,
        help="Least made-up number where a schema sets none.",
    ),
    click.option(
        "--max-tool-call-number-param",
        "most_number",
        type=float,
        default=100.0,
        show_default=True,
        help="Largest one.",
    ),
    click.option(
        "--min-tool-call-array-param-length",
        "least_items",
        type=click.IntRange(0, 100),
        default=1,
        show_default=True,
        help="Fewest items of a made-up array where a schema sets none.",
    ),
    click.option(
        "--max-tool-call-array-param-length",
        "most_items",
        type=click.IntRange(0, 100),
        default=5,
        show_default=True,
        help="Most of them.",
    ),
    click.option(
        "--tool-call-not-required-param-probability",
        "optional_parameter_share",
        type=_PERCENT,
        default=50,
        show_default=True,
        callback=_share,
        help="Percent of tool calls with a parameter that is optional.",
    ),
    click.option(
        "--object-tool-call-not-required-field-probability",
        "optional_field_share",
        type=_PERCENT,
        default=50,
        show_default=True,
        callback=_share,
        help="Percent of objects within with a field that is optional.",
    ),
    click.option(
        "--tool-call-extra-call-probability",
        "further_call_share",
        type=_PERCENT,
        default=45,
        show_default=True,
        callback=_share,
        help="Percent of tool calls that are followed by another.",
    ),
)
"""How values are made up, by their names."""
