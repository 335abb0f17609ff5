"""`headgate picker`: the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from headgate.cli import options
from headgate.cli.picker import go_flags

_port = click.IntRange(0, 65535)


@click.command(cls=go_flags.GoCommand)
@options.process
@click.option(
    "--pool-name",
    "--poolName",
    "--serverPoolName",
    "pool_names",
    multiple=True,
    metavar="NAME",
    help="An InferencePool to pick for; repeatable. Default: all of the namespace.",
)
@click.option(
    "--pool-namespace",
    "--poolNamespace",
    "--namespace",
    default="default",
    metavar="NAMESPACE",
    help="Their namespace.",
)
@click.option(
    "--pool-group",
    "--poolGroup",
    default="inference.networking.k8s.io",
    metavar="GROUP",
    type=click.Choice(["inference.networking.k8s.io", "inference.networking.x-k8s.io"]),
    help="Their API group.",
)
@click.option(
    "--endpoint-selector",
    default="",
    metavar="LABELS",
    callback=go_flags.selector,
    help="Pick among Pods with these labels (app=vllm,tier=gpu), without an InferencePool.",
)
@click.option(
    "--endpoint-target-ports",
    default="",
    metavar="PORTS",
    callback=go_flags.ports,
    help="With --endpoint-selector: their ports, up to eight.",
)
@click.option(
    "--unknown-models",
    type=click.Choice(["auto", "pass", "reject"]),
    default="auto",
    help="Models that no InferenceModel names: pass them to an endpoint, or reject them with 404. "
    "auto passes them if no InferenceModel leads to the pool.",
)
@click.option("--host", default="0.0.0.0", help="Address of all ports.")  # noqa: S104
@click.option(
    "--grpc-port", "--grpcPort", "--port", type=_port, default=9002, help="Port of external processing."
)
@click.option(
    "--grpc-health-port",
    "--grpcHealthPort",
    type=_port,
    default=9003,
    help="Port of the gRPC health service.",
)
@click.option(
    "--metrics-port", "--metricsPort", type=_port, default=9090, help="Port of /metrics and /readyz."
)
@go_flags.switch(
    "--secure-serving",
    "--secureServing",
    default=True,
    help="Serve with TLS; with a self-signed certificate unless there is a --cert-path.",
)
@click.option(
    "--cert-path",
    "--certPath",
    default="",
    type=click.Path(file_okay=False),
    help="Directory with tls.crt and tls.key.",
)
@click.option(
    "--tls-min-version",
    default="VersionTLS12",
    metavar="VERSION",
    callback=go_flags.tls_version,
    help="Least version of TLS: VersionTLS12 or VersionTLS13.",
)
@click.option(
    "--tls-cipher-suites",
    default="",
    metavar="NAMES",
    callback=go_flags.ciphers,
    help="Ciphers of TLS 1.2, by Go's names, separated by commas. Those of TLS 1.3 are always on.",
)
@go_flags.switch("--enable-cert-reload", default=True, help="Read them again when they change.")
@click.option(
    "--config-file",
    "--configFile",
    type=click.Path(dir_okay=False, exists=True),
    help="File with an EndpointPickerConfig.",
)
@click.option(
    "--config-text", "--configText", default="", metavar="YAML", help="The EndpointPickerConfig itself."
)
@go_flags.switch(
    "--allow-experimental-plugins", default=False, help="Whether it may use experimental plugins."
)
@click.option(
    "--scheduling-policy",
    default="predicted",
    type=click.Choice(["predicted", "least-work", "least-request", "round-robin", "random"]),
    help="How endpoints are picked without such a configuration.",
)
@click.option(
    "--refresh-metrics-interval",
    "--refreshMetricsInterval",
    default="1s",
    metavar="DURATION",
    callback=go_flags.duration,
    help="How often quiet engines are read; busy ones are read ten times as often.",
)
@click.option(
    "--metrics-staleness-threshold",
    default="5s",
    metavar="DURATION",
    callback=go_flags.duration,
    help="Readings older than this are ignored.",
)
@click.option(
    "--engine-metrics-port",
    type=_port,
    default=0,
    help="Port of the engines' metrics page; 0: that of requests, or of the Pod's annotation.",
)
@click.option("--engine-metrics-path", default="/metrics", help="Path of that page.")
@go_flags.switch("--flow-control", default=True, help="Queue requests while the pool has no capacity.")
@click.option(
    "--body-mode",
    type=click.Choice(["auto", "full-duplex", "buffered"]),
    default="auto",
    help="How proxies that do not say so send bodies; auto: full-duplex.",
)
@click.option(
    "--fallback-endpoints",
    type=click.IntRange(0, 16),
    default=0,
    help="How many endpoints are named after the picked one, for retries of the proxy.",
)
@go_flags.switch(
    "--disable-endpoint-subset-filter",
    default=False,
    help="Ignore the endpoints to which the proxy confines a request.",
)
@go_flags.switch(
    "--emit-endpoint-scores",
    default=False,
    help="Tell the proxy the scores of all endpoints, as metadata.",
)
@click.option(
    "--error-format",
    type=click.Choice(["text", "openai"]),
    default="text",
    help="Bodies of errors: one line, as the reference implementation has them, or OpenAI's JSON.",
)
@go_flags.switch(
    "--stream-usage",
    default=True,
    help="Ask engines for the token counts of streams, and take them out again.",
)
@go_flags.switch(
    "--conformance-headers",
    default=False,
    help="Let the header test-epp-endpoint-selection choose endpoints, for conformance tests only.",
)
@click.option(
    "--explain-to",
    multiple=True,
    metavar="NETWORK",
    callback=go_flags.networks,
    help="Clients that learn the decision about their request by x-headgate-explain: networks of the "
    "attribute source.address, or of the last address in x-forwarded-for; repeatable. Default: this machine.",
)
@click.option(
    "--max-body-bytes",
    type=click.IntRange(1024, 1 << 30),
    default=32 << 20,
    help="Longest body of a request.",
)
@click.option(
    "--grpc-max-recv-msg-size",
    type=click.IntRange(65536, 1 << 30),
    default=4 << 20,
    metavar="BYTES",
    help="Longest message of a proxy.",
)
@click.option(
    "--drain-timeout",
    default="30s",
    metavar="DURATION",
    callback=go_flags.duration,
    help="How long requests may take to end after the signal to stop.",
)
@click.option(
    "--peers",
    multiple=True,
    metavar="HOST:PORT",
    help="Another picker of the same pools, to share work in flight and prompts with; repeatable.",
)
@go_flags.switch(
    "--peers-discovery", default=False, help="Whether pickers of the same pools find each other by Leases."
)
@click.option("--peers-host", default="127.0.0.1", help="Address on which other pickers connect.")
@click.option("--peers-port", type=_port, default=0, help="Port of these connections; 0: any.")
@click.option(
    "--peers-advertise",
    default="",
    metavar="HOST",
    help="Host in this picker's Lease, such as the IP of its Pod. Default: --peers-host.",
)
@click.option(
    "--peers-token-file",
    type=click.Path(dir_okay=False),
    help="File with a token that all of them have; required beyond this machine.",
)
@click.option(
    "--access-log",
    type=click.Choice(["text", "json", "off"]),
    default="off",
    help="Format of the line written to standard output for each request.",
)
@go_flags.switch(
    "--tracing",
    default=True,
    help="Export traces, if --tracing-endpoint or OTEL_EXPORTER_OTLP_ENDPOINT says where.",
)
@click.option(
    "--tracing-endpoint",
    default="",
    metavar="URL",
    help="Collector of traces by OTLP over HTTP, such as http://localhost:4318.",
)
@click.option(
    "--tracing-sample-ratio",
    type=click.FloatRange(0, 1),
    help="Share of the requests without a trace that is sampled. Default: OTEL_TRACES_SAMPLER, or 0.01.",
)
@click.option("-v", "--v", "verbosity", type=int, default=0, help="Verbosity as in Go programs; 4 is debug.")
@options.page_token_file
@options.log_level
def picker(kubeconfig: Path | None, state: Path, **given: Any) -> None:
    """Pick endpoints for Envoy and other proxies (external processing), as InferencePools define.

    Flags have the names of the reference implementation where it has them.

    Example: headgate picker --pool-name sim-base --secure-serving=false
    """
    import asyncio

    from headgate import cluster, garbage, peers
    from headgate.cli import process
    from headgate.cli.picker import settings
    from headgate.picker.certificates import CertificateError
    from headgate.picker.service import Servers, run_picker

    found = settings.from_flags(kubeconfig, given)

    def announce(servers: Servers) -> None:
        garbage.spare_what_there_is()
        state = "is ready" if servers.is_ready else "is not ready yet, but listens"
        process.say(f"headgate picker {state} on port {servers.port}", err=True)

    async def main(stop: asyncio.Event) -> None:
        await run_picker(found, stop, announce)

    known = (cluster.ConfigurationError, CertificateError, peers.ConfigurationError)
    level = "debug" if given["verbosity"] >= 4 else given["log_level"]
    process.run(main, log_level=level, known=known)
