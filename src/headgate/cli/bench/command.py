"""`headgate bench`: the command and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from headgate.cli import options
from headgate.cli.simulate.completing import complete_workload, list_workloads

_COUNT = click.IntRange(min=1)
_MAX_REQUESTS = 1_000_000
_MAX_WORKERS = 64
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_READABLE = click.Path(dir_okay=False, allow_dash=True)


_TRAFFIC = options.together(
    click.option(
        "--workload",
        metavar="NAME",
        shell_complete=complete_workload,
        help="Generated requests.  [default: independent]",
    ),
    click.option(
        "--set",
        "parameters",
        multiple=True,
        metavar="NAME=NUMBER",
        help="Parameter of the workload; repeatable.",
    ),
    click.option(
        "--workloads",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=list_workloads,
        help="List the workloads with their parameters, and exit.",
    ),
    click.option("--prompt-tokens", type=_COUNT, help="Fixed length of prompts that share nothing."),
    click.option("--output-tokens", type=_COUNT, help="Fixed length of responses."),
    click.option("--trace", type=_READABLE, metavar="FILE", help="Requests of a trace, at its times."),
    click.option(
        "--format",
        type=click.Choice(["auto", "mooncake", "azure", "burstgpt"]),
        default="auto",
        help="Format of the trace; auto detects it from the first line.",
    ),
    click.option("--block-tokens", type=_COUNT, default=512, help="Tokens per block of a Mooncake trace."),
    click.option(
        "--jitter",
        default="auto",
        metavar="auto|off|TIME",
        help="Delay each request of a trace randomly by up to this time; auto: by the grid of its times.",
    ),
    click.option(
        "--dataset", type=_FILE, help="Conversations in ShareGPT's JSON, or such lines, as prompts."
    ),
    click.option("--turns", type=_COUNT, default=1, help="Turns of each conversation of a dataset, at most."),
    click.option(
        "--closed-loop",
        is_flag=True,
        help="Send each turn of a conversation after the previous response and a pause.",
    ),
    click.option("--seed", type=int, default=1, help="Equal seeds produce equal lengths and times."),
    click.option(
        "--salt",
        help="Equal salts produce equal texts, which a cache may have. Default: a new one each time.",
    ),
)
_PACE = options.together(
    click.option(
        "--rate", callback=options.pace, metavar="RATE", help="Average requests per second.  [default: 1]"
    ),
    click.option(
        "--rate-scale",
        callback=options.pace,
        metavar="NUMBER",
        help="Factor on the arrival rate of a trace: 2 is twice as fast.",
    ),
    click.option(
        "--arrivals",
        type=click.Choice(["poisson", "constant", "gamma"]),
        help="Intervals between requests: random, even, or as irregular as --burstiness says.  "
        "[default: the trace's, else poisson]",
    ),
    click.option(
        "--burstiness",
        type=click.FloatRange(0.01, 1000),
        default=1.0,
        help="Shape of gamma intervals: 1 is poisson, less is burstier, more is more even.",
    ),
    click.option(
        "--requests", type=click.IntRange(1, _MAX_REQUESTS), help="Number of requests.  [default: 100]"
    ),
    click.option(
        "--duration", callback=options.seconds, metavar="TIME", help="Send requests for this time instead."
    ),
    click.option(
        "--max-in-flight",
        type=click.IntRange(1, 100_000),
        default=1024,
        help="Requests in flight at a time. Others are sent late; times count from when they were due.",
    ),
    click.option(
        "--drop", is_flag=True, help="Drop requests that are due while as many are in flight, and count them."
    ),
    click.option("--workers", type=click.IntRange(1, _MAX_WORKERS), default=1, help="Client processes."),
)
_SERVER = options.together(
    click.option("--model", help="Model to request. Default: the only one that the server lists."),
    click.option(
        "--api", type=click.Choice(["chat", "completions"]), default="chat", help="API of the requests."
    ),
    click.option("--stream/--no-stream", default=True, help="Whether responses are streamed."),
    click.option(
        "--ignore-eos/--no-ignore-eos",
        default=True,
        help="Whether responses have exactly their planned length, if the engine can.",
    ),
    click.option(
        "--body", metavar="JSON", help="More fields of each request, such as '{\"temperature\": 0}'."
    ),
    click.option(
        "--api-key",
        envvar=["HEADGATE_API_KEY", "OPENAI_API_KEY"],
        show_envvar=True,
        show_default=False,
        help="API key; other users of this machine may see it, unless it comes from the environment.",
    ),
    click.option("--api-key-file", type=_FILE, help="File with the API key."),
    click.option(
        "-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="Header to send; repeatable."
    ),
    click.option("--cacert", type=_FILE, help="Certificates of authorities to trust."),
    click.option("--cert", type=_FILE, help="Certificate of this client, with its key or --key."),
    click.option("--key", type=_FILE, help="Private key of --cert."),
    click.option("--insecure", is_flag=True, help="Accept any certificate."),
    click.option(
        "--explain/--no-explain",
        default=True,
        help="Ask a Headgate gateway which endpoint served a request; it answers trusted clients.",
    ),
    click.option(
        "--timeout",
        callback=options.seconds,
        default="5m",
        metavar="TIME",
        help="Time for a request until its response is complete; after it, it has failed.",
    ),
)
_OBJECTIVES = options.together(
    click.option(
        "--slo",
        metavar="NAME=TIME,...",
        help="Objectives of a request: ttft, tpot, latency, such as ttft=500ms,tpot=50ms.",
    ),
    click.option(
        "--require",
        type=click.FloatRange(0, 1),
        metavar="SHARE",
        help="Exit with code 3 if a smaller share of the requests meets the objectives, or succeeds.",
    ),
)
_OUTPUT = options.together(
    click.option(
        "--compare",
        metavar="URL|FILE",
        help="Run the same plan against another server afterwards, or compare with a saved run.",
    ),
    click.option(
        "--rounds",
        type=click.IntRange(1, 100),
        default=1,
        help="With --compare URL: divide the plan into as many parts, and take turns.",
    ),
    options.output("text", "json"),
    click.option(
        "--png", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Draw times as PNG."
    ),
    click.option(
        "--save",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write the run with all its requests, for later comparisons.",
    ),
)


@click.command(short_help="Send load to a server, and measure it.")
@click.argument("target", metavar="URL|FILE")
@_TRAFFIC
@_PACE
@_SERVER
@_OBJECTIVES
@_OUTPUT
def bench(**given: Any) -> None:
    """Send requests at planned times to a gateway or an engine, and print what clients experience.

    URL is that of a server with OpenAI's API; FILE is a run that --save has written. Requests are sent at
    their times, however slow the server is, and times count from when a request was due.

    \b
    Examples:
      headgate bench http://127.0.0.1:8080 --rate 5 --duration 30s --slo ttft=500ms,tpot=50ms
      headgate bench http://127.0.0.1:8080 --workload shared-prefix --set prefixes=20 --rate 8 --compare http://gpu-1:8000
      headgate bench https://llm.example.com --trace conversation.jsonl --rate-scale 0.5 --png run.png
    """
    from headgate.cli.bench import planning, running

    running.run(planning.Options(**given))
