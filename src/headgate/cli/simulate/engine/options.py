"""Parsing of engine options: times, options with several values, and options from a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

SECONDS = click.FloatRange(min=0)
RATE = click.FloatRange(min=0, min_open=True)
COUNT = click.IntRange(min=1)


def seconds(context: click.Context, parameter: click.Parameter, text: str | float | None) -> float | None:
    """Parse 200, 200ms or 0.2s; a plain number is milliseconds."""
    from headgate.kubeschema import duration

    if text is None:
        return None
    text = str(text)
    try:
        seconds = float(text) / 1000 if text.replace(".", "", 1).isdigit() else duration.parse(text)
    except duration.DurationError:
        seconds = -1.0
    if seconds < 0:
        raise click.BadParameter(f"{text!r} is not a time such as 200ms or 1.5s", context, parameter)
    return seconds


def lasting(context: click.Context, parameter: click.Parameter, text: str | float) -> float:
    """Parse 30s, 2m or 1.5; a plain number is seconds."""
    given = str(text)
    told = seconds(context, parameter, f"{given}s" if given.replace(".", "", 1).isdigit() else given)
    return told or 0.0


# Options from a YAML file; the command line and the environment take precedence.
_SECTIONS = ("latencies", "kvcache")


def take_defaults(context: click.Context, parameter: click.Parameter, path: str | None) -> None:
    """Use the options of a file as defaults of the command. Raises click.UsageError with all errors."""
    if path is None:
        return
    # Imported here, because importing it always would slow down every `headgate --help`.
    from headgate.cli.validation.spelling import closest

    given = _read(path)
    known = {
        opt.lstrip("-"): each
        for each in context.command.params
        if isinstance(each, click.Option) and each is not parameter
        for opt in each.opts
    }
    defaults: dict[str, Any] = {}
    wrong = []
    for key, value in _flat(given):
        option = known.get(str(key).replace("_", "-"))
        if option is None or option.name is None:
            near = closest(str(key), known)
            wrong.append(
                f"--config: {path}: {key} is not an option" + (f"; did you mean {near}?" if near else "")
            )
            continue
        defaults[option.name] = _value(option, value)
    if wrong:
        raise click.UsageError("\n".join(wrong))
    context.default_map = {**defaults, **(context.default_map or {})}


def _flat(given: Mapping[object, object]) -> Iterator[tuple[object, object]]:
    """Flatten the sections that llm-d-inference-sim groups some options in."""
    for key, value in given.items():
        if key in _SECTIONS and isinstance(value, dict):
            yield from value.items()
        else:
            yield key, value


def _read(path: str) -> Mapping[object, object]:
    import yaml

    try:
        with open(path) as file:
            given = yaml.safe_load(file)
    except yaml.YAMLError as error:
        raise click.UsageError(f"--config: {path} is not YAML: {error}") from error
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise click.UsageError(f"--config: {path} must be a mapping of options, such as `max-num-seqs: 64`")
    return given


def _value(option: click.Option, value: object) -> object:
    """As the command line would have it: options in JSON may be written as YAML."""
    if option.multiple:
        values = value if isinstance(value, list) else [value]
        return [json.dumps(each) if isinstance(each, dict) else each for each in values]
    return json.dumps(value) if isinstance(value, dict | list) else value


# Options with several values, such as `--served-model-name a b`, which click does not support.
_SPACED = ("--served-model-name", "--lora-modules", "--failure-types")


class SpacedCommand(click.Command):
    """Repeats the option's name before each further value. The command has no positional arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _spread(args))


def _spread(words: list[str]) -> list[str]:
    spread: list[str] = []
    option = ""
    for word in words:
        if word.startswith("-"):
            option = word if word in _SPACED else ""
            spread.append(word)
        elif option and spread[-1] != option:
            spread += [option, word]
        else:
            spread.append(word)
    return spread
