"""`headgate simulate engine`: one simulated engine over HTTP."""

from typing import TYPE_CHECKING

import click

from headgate.cli.simulate.completing import complete_profile
from headgate.cli.simulate.engine_options import DATASET, IMAGES, PROTOCOLS, SPECULATION

if TYPE_CHECKING:
    import socket

    from headgate.simulator.model import EngineConfig, EngineProfile
    from headgate.simulator.server import AnswerLengths, Api, FailureSettings, Mode, Role, ServerSettings


def _find_profile(_: click.Context, __: click.Parameter, name: str) -> "EngineProfile":
    """The profile of that name. A `click.Choice` would import the profiles for every `headgate --help`."""
    from headgate.simulator.model import PROFILES

    if name not in PROFILES:
        raise click.BadParameter(f"{name!r} is not a profile; there are {', '.join(PROFILES)}")
    return PROFILES[name]


_SECONDS = click.FloatRange(min=0)
_COUNT = click.IntRange(min=1)


@click.command(short_help="Serve the OpenAI API from a simulated engine.")
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
    shell_complete=complete_profile, help="Constants to start from; `headgate simulate profiles` lists them.",
)  # fmt: skip
@click.option("--base-s", type=_SECONDS, help="Seconds that every step takes.")
@click.option(
    "--per-decode-sequence-s", type=_SECONDS, help="Seconds for each sequence that decodes in a step."
)
@click.option("--per-kv-token-s", type=_SECONDS, help="Seconds for each token of context that these read.")
@click.option(
    "--per-prefill-token-s", type=_SECONDS, help="Seconds for each prompt token prefilled in a step."
)
@click.option("--prefill-base-s", type=_SECONDS, help="What a step that prefills has for --base-s, if more.")
@click.option("--least-prefill-s", type=_SECONDS, help="Seconds that a step that prefills takes at least.")
@click.option("--per-start-s", type=_SECONDS, help="Seconds for each request that starts in a step.")
@click.option("--max-num-seqs", type=_COUNT, help="Sequences that run at once.")
@click.option("--max-model-len", type=_COUNT, help="Tokens of prompt and answer together.")
@click.option("--prefill-budget-tokens", type=_COUNT, help="Prompt tokens that one step may prefill.")
@click.option("--kv-blocks", type=_COUNT, help="Blocks of the KV cache.")
@click.option("--block-size", type=_COUNT, help="Tokens in one KV block.")
@click.option(
    "--host-kv-blocks",
    type=click.IntRange(min=0),
    help="Blocks of a second cache in the host's memory, which has what the first one drops.",
)
@click.option("--host-token-s", type=_SECONDS, help="Seconds for each cached token that comes from there.")
@click.option(
    "--max-waiting", type=click.IntRange(min=0), help="Requests taken beyond max-num-seqs; more get a 429."
)
@click.option(
    "--max-tokens-default", type=_COUNT, default=64, show_default=True,
    help="Length of an answer whose request sets no limit.",
)  # fmt: skip
@click.option(
    "--answer-lengths", type=click.Choice(["exact", "sampled"]), default="exact", show_default=True,
    help="As long as max_tokens says, or random within it.",
)  # fmt: skip
@click.option("--startup-duration", type=_SECONDS, default=0.0, help="Seconds during which /health says 503.")
@click.option(
    "--drain-duration", type=click.IntRange(min=0), default=2, show_default=True,
    help="Seconds that requests in flight may still take after SIGTERM.",
)  # fmt: skip
@click.option(
    "--enable-prefix-caching/--no-enable-prefix-caching", "prefix_cache", default=None,
    help="Whether prompts that share a beginning are computed once (they are).",
)  # fmt: skip
@click.option(
    "--global-cache-hit-threshold", "cache_hit_threshold", type=click.FloatRange(0, 1), default=0.0,
    show_default=True, help="Share of a prompt that must be cached, or it ends with cache_threshold.",
)  # fmt: skip
@click.option(
    "--lora-modules", multiple=True, metavar="NAME=PATH",
    help="Adapter that is loaded from the start, or vLLM's JSON; repeat it for more.",
)  # fmt: skip
@click.option("--max-loras", "max_adapters", type=click.IntRange(min=0), help="Adapters in memory at a time.")
@click.option(
    "--max-cpu-loras", "max_host_adapters", type=_COUNT,
    help="Adapters that the host's memory keeps, at least --max-loras.",
)  # fmt: skip
@click.option(
    "--adapter-host-load-s", type=_SECONDS, help="Seconds that loading one of these from there takes."
)
@click.option("--adapter-load-s", type=_SECONDS, help="Seconds that loading an adapter takes.")
@click.option(
    "--adapter-kv-blocks", type=click.IntRange(min=0), help="KV blocks whose memory an adapter takes."
)
@click.option(
    "--scheduling-policy", type=click.Choice(["fcfs", "priority"]), default="fcfs", show_default=True,
    help="Whether requests start first come, first served, or by their `priority`.",
)  # fmt: skip
@SPECULATION
@click.option(
    "--kv-events-config", metavar="JSON", help="Where cache events are published, as vLLM's option."
)
@click.option(
    "--data-parallel-size", type=click.IntRange(1, 64), default=1, show_default=True,
    help="Copies of the engine behind this server.",
)  # fmt: skip
@click.option(
    "--engine", "api", type=click.Choice(["vllm", "sglang", "trtllm"]), default="vllm", show_default=True,
    help="Whose metrics and prefill/decode form it has.",
)  # fmt: skip
@click.option(
    "--metrics-generation", type=click.Choice(["new", "old"]), default="new", show_default=True,
    help="Names of vLLM's metrics: since 0.11, or before.",
)  # fmt: skip
@click.option(
    "--role", type=click.Choice(["both", "prefill", "decode"]), default="both", show_default=True,
    help="Which side of prefill/decode pairs it is for.",
)  # fmt: skip
@click.option("--check-protocol", is_flag=True, help="Refuse what deviates from the prefill/decode protocol.")
@click.option(
    "--side-channel-host", envvar="VLLM_NIXL_SIDE_CHANNEL_HOST", show_envvar=True,
    help="Where other engines reach this one, if not at --host.",
)  # fmt: skip
@click.option(
    "--kv-store", type=click.Path(dir_okay=False),
    help="File in which engines of this machine find each other's prompts by content.",
)  # fmt: skip
@click.option(
    "--kv-hold", type=_SECONDS, default=480.0, show_default=True,
    help="Seconds that a prompt waits to be read by the decode side.",
)  # fmt: skip
@click.option(
    "--bootstrap-port", type=click.IntRange(0, 65535), default=8998, show_default=True,
    help="Where an SGLang prefill engine meets its decode side.",
)  # fmt: skip
@click.option(
    "--bootstrap-timeout", type=_SECONDS, default=300.0, show_default=True,
    help="Seconds that one side waits there for the other.",
)  # fmt: skip
@click.option(
    "--kv-transfer-per-token-s", "kv_transfer_s_per_token", type=_SECONDS, default=0.0, show_default=True,
    help="Seconds for the KV cache of a token to come from another engine.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Equal seeds give equal texts.")
@click.option("--pod-name", envvar="POD_NAME", show_envvar=True, help="Sent back as x-inference-pod.")
@click.option(
    "--pod-namespace", envvar="POD_NAMESPACE", show_envvar=True, help="Sent back as x-inference-namespace."
)
@click.option(
    "--mode", type=click.Choice(["random", "echo"]), default="random", show_default=True,
    help="Answer with words, or with what the request said last.",
)  # fmt: skip
@click.option(
    "--failure-injection-rate", type=click.FloatRange(0, 100), default=0.0, show_default=True,
    help="Percent of requests that fail.",
)  # fmt: skip
@click.option(
    "--failure-types", metavar="TYPES", help="Comma list of the ways in which they do; all errors if empty."
)
@click.option(
    "--faults",
    type=click.Path(exists=True, dir_okay=False),
    help="YAML file with a schedule of faults.",
)
@click.option("--enable-sleep-mode", "sleep_mode", is_flag=True, help="POST /sleep has an effect.")
@click.option(
    "--default-embedding-dimensions", "embedding_dimensions", type=click.IntRange(1, 65536), default=384,
    show_default=True, help="Length of a vector whose request names none.",
)  # fmt: skip
@IMAGES
@DATASET
@PROTOCOLS
def engine(
    host: str,
    port: int,
    models: tuple[str, ...],
    profile: "EngineProfile",
    max_tokens_default: int,
    answer_lengths: "AnswerLengths",
    cache_hit_threshold: float,
    startup_duration: float,
    drain_duration: int,
    lora_modules: tuple[str, ...],
    scheduling_policy: str,
    kv_events_config: str | None,
    data_parallel_size: int,
    api: "Api",
    metrics_generation: str,
    role: "Role",
    check_protocol: bool,
    side_channel_host: str | None,
    kv_store: str | None,
    kv_hold: float,
    bootstrap_port: int,
    bootstrap_timeout: float,
    kv_transfer_s_per_token: float,
    seed: int,
    pod_name: str | None,
    pod_namespace: str | None,
    mode: "Mode",
    failure_injection_rate: float,
    failure_types: str | None,
    faults: str | None,
    sleep_mode: bool,
    embedding_dimensions: int,
    mm_encode_s: float,
    mm_cached_items: int,
    dataset_path: str | None,
    dataset_url: str | None,
    dataset_table_name: str,
    dataset_in_memory: bool,
    ssl_certfile: str | None,
    ssl_keyfile: str | None,
    self_signed_certs: bool,
    grpc: bool,
    **overrides: float | None,
) -> None:
    """Serve the OpenAI API from a simulated engine, with the metrics of a real one.

    Options without a default here have the profile's.
    """
    from headgate.simulator import server

    try:
        settings = server.ServerSettings(
            engine=_override(profile.config, overrides | {"by_priority": scheduling_policy == "priority"}),
            models=models,
            seed=seed,
            max_tokens_default=max_tokens_default,
            answer_lengths=answer_lengths,
            cache_hit_threshold=cache_hit_threshold,
            startup_s=startup_duration,
            drain_s=drain_duration,
            pod_name=pod_name,
            pod_namespace=pod_namespace,
            mode=mode,
            failures=_failures(failure_injection_rate, failure_types, faults),
            sleep_mode=sleep_mode,
            embedding_dimensions=embedding_dimensions,
            lora_modules=tuple(map(server.parse_module, lora_modules)),
            kv_events=server.read_kv_events(kv_events_config) if kv_events_config else None,
            data_parallel_size=data_parallel_size,
            api=api,
            metrics_generation=metrics_generation,
            role=role,
            check_protocol=check_protocol,
            side_channel_host=side_channel_host,
            kv_store=kv_store,
            kv_hold_s=kv_hold,
            bootstrap_timeout_s=bootstrap_timeout,
            kv_transfer_s_per_token=kv_transfer_s_per_token,
            mm_encode_s=mm_encode_s,
            mm_cached_items=mm_cached_items,
            dataset_path=dataset_path,
            dataset_url=dataset_url,
            dataset_table_name=dataset_table_name,
            dataset_in_memory=dataset_in_memory,
            ssl_certfile=ssl_certfile,
            ssl_keyfile=ssl_keyfile,
            self_signed_certs=self_signed_certs,
            grpc=grpc,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    meets = api == "sglang" and role == "prefill"
    _serve(settings, host, port, profile.name, bootstrap_port if meets else None)


def _serve(
    settings: "ServerSettings", host: str, port: int, profile: str, bootstrap_port: int | None
) -> None:
    from headgate.simulator import server

    sock = _listen(host, port, "--port")
    bootstrap = None if bootstrap_port is None else _listen(host, bootstrap_port, "--bootstrap-port")
    port = sock.getsockname()[1]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    scheme = "https" if settings.speaks_tls else "http"
    told = f"simulating {', '.join(settings.models)} ({profile}) on {scheme}://{address}"
    if bootstrap is not None:
        told += f", bootstrap on port {bootstrap.getsockname()[1]}"
    try:
        server.run(settings, sock, lambda: click.echo(told), bootstrap)
    except OSError as error:
        raise click.ClickException(str(error)) from error


def _failures(rate: float, types: str | None, path: str | None) -> "FailureSettings":
    """Raises ValueError that names the option."""
    import msgspec
    import yaml

    from headgate.simulator.server import FAILURE_TYPES, FailureSettings

    given: dict[str, object] = {"failure_injection_rate": rate}
    if types:
        given["failure_types"] = names = [name.strip() for name in types.split(",")]
        if unknown := [name for name in names if name not in FAILURE_TYPES]:
            raise ValueError(
                f"--failure-types: there is no {', '.join(map(repr, unknown))}; "
                f"there are {', '.join(FAILURE_TYPES)}"
            )
    if path is not None:
        with open(path) as file:
            try:
                given["faults"] = yaml.safe_load(file)
            except yaml.YAMLError as error:
                raise ValueError(f"--faults: {path} is not YAML: {error}") from error
        if not isinstance(given["faults"], list):
            raise ValueError(f"--faults: {path} is no list, as of `- {{kind: slow, at_s: 60, factor: 4}}`")
    try:
        return msgspec.convert(given, FailureSettings)
    except msgspec.ValidationError as error:
        raise ValueError(f"--faults: {path}: {error}") from error


def _listen(host: str, port: int, option: str) -> "socket.socket":
    from headgate.simulator import server

    try:
        return server.listen(host, port)
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on {host} port {port}: {error.strerror}; see --host, {option}"
        ) from error


def _override(config: "EngineConfig", overrides: dict[str, float | None]) -> "EngineConfig":
    """`config` with the constants that were given on the command line."""
    import msgspec

    given = {name: value for name, value in overrides.items() if value is not None}
    costs = {name: given.pop(name) for name in config.costs.__struct_fields__ if name in given}
    return msgspec.structs.replace(config, costs=msgspec.structs.replace(config.costs, **costs), **given)
