"""`headgate simulate`: simulated inference engines on the command line."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from headgate.simulator.model import EngineConfig, EngineProfile
    from headgate.simulator.server import ServerSettings


def _find_profile(_: click.Context, __: click.Parameter, name: str) -> "EngineProfile":
    """The profile of that name. A `click.Choice` would import the profiles for every `headgate --help`."""
    from headgate.simulator.model import PROFILES

    if name not in PROFILES:
        raise click.BadParameter(f"{name!r} is not a profile; there are {', '.join(PROFILES)}")
    return PROFILES[name]


_SECONDS = click.FloatRange(min=0)
_COUNT = click.IntRange(min=1)


@click.group()
def simulate() -> None:
    """Simulated inference engines: everything around an engine, without a GPU."""


@simulate.command()
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form."
)
def profiles(output: str) -> None:
    """List the engine profiles and their constants."""
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
            click.echo(f"    --{name.replace('_', '-'):<24}{value}")


@simulate.command()
@click.option(
    "--host",
    default="127.0.0.1",
    envvar="POD_IP",
    show_default=True,
    show_envvar=True,
    help="Address to listen on.",
)
@click.option(
    "--port", default=8000, type=click.IntRange(0, 65535), show_default=True, help="Port; 0 takes a free one."
)
@click.option(
    "--model", "models", multiple=True, default=("simulated",), show_default=True,
    envvar="SIM_MODEL", show_envvar=True,
    help="Served model name; repeat it for aliases (in the variable: separated by blanks).",
)  # fmt: skip
@click.option(
    "--profile", callback=_find_profile, default="8b-h100", show_default=True,
    help="Constants to start from; `headgate simulate profiles` lists them.",
)  # fmt: skip
@click.option("--base-s", type=_SECONDS, help="Seconds that every step takes.")
@click.option(
    "--per-decode-sequence-s", type=_SECONDS, help="Seconds for each sequence that decodes in a step."
)
@click.option("--per-kv-token-s", type=_SECONDS, help="Seconds for each token of context that these read.")
@click.option(
    "--per-prefill-token-s", type=_SECONDS, help="Seconds for each prompt token prefilled in a step."
)
@click.option("--max-num-seqs", type=_COUNT, help="Sequences that run at once.")
@click.option("--max-model-len", type=_COUNT, help="Tokens of prompt and answer together.")
@click.option("--prefill-budget-tokens", type=_COUNT, help="Prompt tokens that one step may prefill.")
@click.option("--kv-blocks", type=_COUNT, help="Blocks of the KV cache.")
@click.option("--block-size", type=_COUNT, help="Tokens in one KV block.")
@click.option(
    "--max-waiting", type=click.IntRange(min=0), help="Requests taken beyond max-num-seqs; more get a 429."
)
@click.option(
    "--max-tokens-default", type=_COUNT, default=64, show_default=True,
    help="Length of an answer whose request sets no limit.",
)  # fmt: skip
@click.option("--startup-duration", type=_SECONDS, default=0.0, help="Seconds during which /health says 503.")
@click.option(
    "--drain-duration", type=click.IntRange(min=0), default=2, show_default=True,
    help="Seconds that requests in flight may still take after SIGTERM.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Equal seeds give equal texts.")
@click.option("--pod-name", envvar="POD_NAME", show_envvar=True, help="Sent back as x-inference-pod.")
def engine(
    host: str,
    port: int,
    models: tuple[str, ...],
    profile: "EngineProfile",
    max_tokens_default: int,
    startup_duration: float,
    drain_duration: int,
    seed: int,
    pod_name: str | None,
    **overrides: float | None,
) -> None:
    """Serve the OpenAI API from a simulated engine with vLLM's metrics.

    Options without a default here have the profile's.
    """
    from headgate.simulator import server

    try:
        settings = server.ServerSettings(
            engine=_override(profile.config, overrides),
            models=models,
            seed=seed,
            max_tokens_default=max_tokens_default,
            startup_s=startup_duration,
            drain_s=drain_duration,
            pod_name=pod_name,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    _serve(settings, host, port, profile.name)


def _serve(settings: "ServerSettings", host: str, port: int, profile: str) -> None:
    from headgate.simulator import server

    try:
        sock = server.listen(host, port)
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on {host} port {port}: {error.strerror}; see --host, --port"
        ) from error
    port = sock.getsockname()[1]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    names = ", ".join(settings.models)
    server.run(settings, sock, lambda: click.echo(f"simulating {names} ({profile}) on http://{address}"))


def _constants(config: "EngineConfig") -> dict[str, float]:
    """All constants of an engine by the names of their options."""
    import msgspec

    constants = msgspec.structs.asdict(config)
    return {**msgspec.structs.asdict(constants.pop("costs")), **constants}


def _override(config: "EngineConfig", overrides: dict[str, float | None]) -> "EngineConfig":
    """`config` with the constants that were given on the command line."""
    import msgspec

    given = {name: value for name, value in overrides.items() if value is not None}
    costs = {name: given.pop(name) for name in config.costs.__struct_fields__ if name in given}
    return msgspec.structs.replace(config, costs=msgspec.structs.replace(config.costs, **costs), **given)
