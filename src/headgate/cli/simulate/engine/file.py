"""Options from a YAML file: they come behind those of the command line and of the environment."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

_SECTIONS = ("latencies", "kvcache")


def take_defaults(context: click.Context, parameter: click.Parameter, path: str | None) -> None:
    """Let the options of a file be the defaults of the command. Raises click.UsageError with all mistakes."""
    if path is None:
        return
    # What only this option needs would slow every `headgate --help` down.
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
                f"--config: {path}: {key} is no option" + (f"; did you mean {near}?" if near else "")
            )
            continue
        defaults[option.name] = _value(option, value)
    if wrong:
        raise click.UsageError("\n".join(wrong))
    context.default_map = {**defaults, **(context.default_map or {})}


def _flat(given: Mapping[object, object]) -> Iterator[tuple[object, object]]:
    """The options, out of the sections in which llm-d-inference-sim has some of them."""
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
        raise click.UsageError(f"--config: {path} is no mapping of options, as `max-num-seqs: 64`")
    return given


def _value(option: click.Option, value: object) -> object:
    """As the command line would have it: what is JSON there may be written out here."""
    if option.multiple:
        values = value if isinstance(value, list) else [value]
        return [json.dumps(each) if isinstance(each, dict) else each for each in values]
    return json.dumps(value) if isinstance(value, dict | list) else value
