"""Options for serving the engine, mostly named after the server's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headgate.cli.options import together
from headgate.cli.simulate.completing import complete_profile
from headgate.cli.simulate.engine.options import COUNT, SECONDS, lasting, take_defaults

if TYPE_CHECKING:
    from headgate.simulator.model import EngineProfile


def _find_profile(_: click.Context, __: click.Parameter, name: str) -> EngineProfile:
    """Look up a profile. A `click.Choice` would import the profiles for every `headgate --help`."""
    from headgate.simulator.model import PROFILES

    if name not in PROFILES:
        raise click.BadParameter(f"{name!r} is not a profile; there are {', '.join(PROFILES)}")
    return PROFILES[name]


PLACE = together(
    click.option(
        "--config",
        type=click.Path(exists=True, dir_okay=False),
        is_eager=True,
        expose_value=False,
        callback=take_defaults,
        help="YAML file with options; the command line and the environment take precedence.",
    ),
    click.option(
        "--host",
        default="127.0.0.1",
        envvar="POD_IP",
        show_envvar=True,
        help="Address to listen on.",
    ),
    click.option(
        "--port",
        default=8000,
        type=click.IntRange(0, 65535),
        help="Port; 0 takes a free one.",
    ),
    click.option(
        "--model",
        "models",
        multiple=True,
        default=("simulated",),
        envvar="SIM_MODEL",
        show_envvar=True,
        help="Served model name; repeat it for aliases (in the variable, separate them by spaces).",
    ),
    click.option(
        "--served-model-name",
        "served_models",
        multiple=True,
        help="Served model name in place of --model; repeat it for aliases.",
    ),
    click.option(
        "--profile",
        callback=_find_profile,
        default="8b-h100",
        shell_complete=complete_profile,
        help="Constants to start from; `headgate simulate profiles` lists them.",
    ),
)

SERVER = together(
    click.option(
        "--max-request-body-size-mb",
        "max_body_mb",
        type=click.IntRange(1, 512),
        default=4,
        help="Maximum request body in MiB; larger ones get a 413.",
    ),
    click.option(
        "--max-tokens-default",
        type=COUNT,
        default=64,
        help="Output tokens of a request that sets no limit.",
    ),
    click.option(
        "--startup-duration",
        "startup_s",
        metavar="SECONDS",
        callback=lasting,
        default="0",
        help="Time during which /health returns 503; also as 30s or 2m.",
    ),
    click.option(
        "--drain-duration",
        "drain_s",
        type=click.IntRange(min=0),
        default=2,
        help="Seconds to drain requests in flight after SIGTERM.",
    ),
    click.option(
        "--lora-modules",
        multiple=True,
        metavar="NAME=PATH",
        help="Adapter loaded at startup, by name or as vLLM's JSON; repeatable.",
    ),
    click.option(
        "--runtime-adapters/--no-runtime-adapters",
        "runtime_adapters",
        default=True,
        envvar="VLLM_ALLOW_RUNTIME_LORA_UPDATING",
        show_envvar=True,
        help="Load and unload adapters while the engine runs.",
    ),
    click.option(
        "--check-adapter-paths",
        "checks_paths",
        is_flag=True,
        help="Refuse to load an adapter at run time if its path is absolute and no directory.",
    ),
    click.option(
        "--data-parallel-size",
        type=click.IntRange(1, 64),
        default=1,
        help="Number of engines, each on its own port: --port and the following ones.",
    ),
    click.option(
        "--data-parallel-internal-lb",
        "one_port",
        is_flag=True,
        help="Serve all of them on --port and let the server choose, as vLLM does by default.",
    ),
    click.option(
        "--data-parallel-external-lb",
        "external_lb",
        is_flag=True,
        help="Accepted for compatibility with vLLM; the default without --data-parallel-internal-lb.",
    ),
    click.option(
        "--data-parallel-rank",
        "only_rank",
        type=click.IntRange(0, 63),
        help="Serve only this rank, on --port; the others run in processes of their own.",
    ),
    click.option(
        "--engine",
        "api",
        type=click.Choice(["vllm", "sglang", "trtllm"]),
        default="vllm",
        help="Engine whose metrics and prefill/decode protocol to simulate.",
    ),
    click.option(
        "--metrics-generation",
        type=click.Choice(["new", "old"]),
        default="new",
        help="Metric names of vLLM: since 0.11, or before.",
    ),
    click.option(
        "--seed",
        "id_seed",
        type=int,
        help="Equal seeds produce equal texts and response ids.  [default: texts of seed 0]",
    ),
    click.option(
        "--hash-seed",
        envvar="PYTHONHASHSEED",
        default="",
        show_default=False,
        show_envvar=True,
        help="Engines with equal seeds have equal hashes for equal blocks.",
    ),
    click.option("--pod-name", envvar="POD_NAME", show_envvar=True, help="Returned as x-inference-pod."),
    click.option(
        "--pod-namespace",
        envvar="POD_NAMESPACE",
        show_envvar=True,
        help="Returned as x-inference-namespace.",
    ),
    click.option(
        "--enable-sleep-mode/--no-enable-sleep-mode",
        "sleep_mode",
        show_default=False,
        help="Enable POST /sleep.",
    ),
)

PAIRS = together(
    click.option(
        "--role",
        type=click.Choice(["both", "prefill", "decode"]),
        default="both",
        help="Role in prefill/decode pairs.",
    ),
    click.option(
        "--check-protocol",
        is_flag=True,
        help="Reject requests that deviate from the prefill/decode protocol.",
    ),
    click.option(
        "--side-channel-host",
        envvar="VLLM_NIXL_SIDE_CHANNEL_HOST",
        show_envvar=True,
        help="Address where other engines reach this one, if not --host.",
    ),
    click.option(
        "--kv-store",
        type=click.Path(dir_okay=False),
        help="File through which engines of this machine find each other's prompts by content.",
    ),
    click.option(
        "--kv-hold",
        "kv_hold_s",
        type=SECONDS,
        default=480.0,
        help="Seconds that a prompt is kept for the decode side to read.",
    ),
    click.option(
        "--bootstrap-port",
        type=click.IntRange(0, 65535),
        default=8998,
        help="Port where an SGLang prefill engine meets its decode side.",
    ),
    click.option(
        "--bootstrap-timeout",
        "bootstrap_timeout_s",
        type=SECONDS,
        default=300.0,
        help="Seconds to wait there for the other side.",
    ),
)

FAILURES = together(
    click.option(
        "--failure-injection-rate",
        type=click.FloatRange(0, 100),
        default=0.0,
        help="Percentage of requests that fail.",
    ),
    click.option(
        "--failure-types",
        metavar="TYPES",
        multiple=True,
        help="Failure types, separated by spaces or commas. Default: all errors.",
    ),
    click.option(
        "--faults",
        type=click.Path(exists=True, dir_okay=False),
        help="YAML file with a schedule of faults.",
    ),
)

PROTOCOLS = together(
    click.option(
        "--ssl-certfile",
        type=click.Path(dir_okay=False),
        help="PEM certificate for HTTPS; reloaded when it changes.",
    ),
    click.option("--ssl-keyfile", type=click.Path(dir_okay=False), help="Its key."),
    click.option("--self-signed-certs", is_flag=True, help="Serve HTTPS with a generated certificate."),
)
IGNORED = together(
    *(
        click.option(
            *names,
            expose_value=False,
            show_default=False,
            help="Accepted for compatibility with vLLM; no effect.",
        )
        for names in (
            ("--enforce-eager/--no-enforce-eager",),
            ("--enable-lora/--no-enable-lora",),
            ("--mm-encoder-only/--no-mm-encoder-only",),
            ("--tensor-parallel-size",),
            ("--mm-processor-kwargs",),
            ("--ec-transfer-config",),
            ("--enable-request-id-headers/--no-enable-request-id-headers",),
            ("--skip-tool-validation/--no-skip-tool-validation",),
        )
    )
)
