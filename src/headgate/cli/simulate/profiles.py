"""`headgate simulate profiles`: the engines to start from."""

from typing import TYPE_CHECKING

import click

from headgate.cli import options

if TYPE_CHECKING:
    from headgate.simulator.model import EngineConfig


@click.command()
@options.output("text", "json")
def profiles(output: str) -> None:
    """List the engine profiles and their constants.

    `headgate simulate trace --engine` and fleet files change constants by these names.
    """
    import json

    from headgate.simulator.model import DEFAULT_PROFILE, PROFILES

    if output == "json":
        rows = [
            {
                "name": profile.name,
                "default": profile.name == DEFAULT_PROFILE,
                "description": profile.description,
                "constants": _constants(profile.config),
            }
            for profile in PROFILES.values()
        ]
        click.echo(json.dumps(rows, indent=4))
        return
    for profile in PROFILES.values():
        default = " (default)" if profile.name == DEFAULT_PROFILE else ""
        click.echo(f"{profile.name}{default}: {profile.description}")
        for name, value in _constants(profile.config).items():
            click.echo(f"    {name:<24}{value:g}")


def _constants(config: "EngineConfig") -> dict[str, float]:
    """The numeric constants of an engine, by their names in fleet files; booleans are left out."""
    import msgspec

    constants = msgspec.structs.asdict(config)
    every = {**msgspec.structs.asdict(constants.pop("costs")), **constants}
    return {name: value for name, value in every.items() if not isinstance(value, bool)}
