"""`headgate controller`: the reconcile loops."""

from pathlib import Path

import click

from headgate.cli import options

NAMESPACE = "workload-variant-autoscaler-system"
"""That of llm-d's workload variant autoscaler."""


def _directories(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    for path in given:
        if not path.startswith("/") or ".." in path.split("/"):
            raise click.BadParameter(f"{path!r} is not the absolute path of a directory, without '..'")
    return given


def _url(context: click.Context, option: click.Parameter, given: str) -> str:
    scheme, _, rest = given.partition("://")
    if given and (scheme not in ("http", "https") or not rest or any(each.isspace() for each in given)):
        raise click.BadParameter(f"{given!r} is not a URL; write http://HOST:PORT")
    return given


def _urls(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_url(context, option, each) for each in given)


@click.command()
@options.process
@options.namespaces
@click.option(
    "--workers",
    default=4,
    type=click.IntRange(1, 64),
    help="Number of objects reconciled at the same time.",
)
@click.option(
    "--leader-elect",
    "lease",
    metavar="[NAMESPACE/]NAME",
    default="",
    help="Run beside others: the one that holds this Lease writes, the others wait. The namespace is by "
    "default that of the kubeconfig, or of the Pod.",
)
@click.option(
    "--lease-s",
    default=15.0,
    type=click.FloatRange(1.0, 3600.0),
    metavar="SECONDS",
    help="With --leader-elect: how long after its last renewal another process takes over.",
    show_default=True,
)
@click.option(
    "--headgate-image",
    default="headgate",
    metavar="IMAGE",
    help="Image of the downloads and sidecars in the Pods of Models.",
    show_default=True,
)
@click.option(
    "--host-path-root",
    "host_path_roots",
    metavar="DIRECTORY",
    multiple=True,
    callback=_directories,
    help="Directory of nodes that a cacheURI hostpath:// of a Model must be in; repeatable. Default: any.",
)
@click.option(
    "--gateway",
    "gateways",
    metavar="URL",
    multiple=True,
    callback=_urls,
    help="Metrics port of a gateway, such as http://10.0.0.7:9090, for metrics headgate:* of "
    "AutoscalingPolicies; repeatable. Name all gateways, or use --gateway-service.",
)
@click.option(
    "--gateway-service",
    metavar="[NAMESPACE/]NAME",
    default="",
    help="Service of gateways, all endpoints of which are followed in the same way.",
)
@click.option(
    "--gateway-metrics-port",
    default=9090,
    type=click.IntRange(1, 65535),
    help="With --gateway-service: the metrics port of the gateways.",
    show_default=True,
)
@click.option(
    "--gateway-address",
    "gateway_addresses",
    metavar="ADDRESS",
    multiple=True,
    help="IP address or host name that clients of Gateways connect to, for their status; repeatable. Or a "
    "range such as 10.0.8.0/24, of which each Gateway gets an address of its own. Default: the addresses "
    "of --gateway-service.",
)
@click.option(
    "--gateway-own-port",
    "gateway_own_ports",
    metavar="PORT",
    multiple=True,
    type=click.IntRange(1, 65535),
    default=(8080, 8081, 9090),
    help="Port that gateways need for themselves, so that no Gateway can have it; repeatable.",
    show_default=True,
)
@click.option(
    "--gateway-controller-name",
    metavar="DOMAIN/PATH",
    default="headgate.dev/gateway-controller",
    help="The controllerName of the GatewayClasses that Headgate implements; empty: none.",
    show_default=True,
)
@click.option(
    "--prometheus",
    metavar="URL",
    default="",
    callback=_url,
    help="Prometheus server for metrics prometheus:QUERY of AutoscalingPolicies.",
)
@click.option(
    "--prometheus-token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the bearer token for it.",
)
@click.option(
    "--prometheus-ca-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="File with the certificates that its certificate is verified by.",
)
@click.option(
    "--autoscaling-period",
    default=15.0,
    type=click.FloatRange(1.0, 3600.0),
    metavar="SECONDS",
    help="How often the Pods of autoscaled workloads are read.",
    show_default=True,
)
@click.option(
    "--planning-namespace",
    metavar="NAMESPACE",
    default=NAMESPACE,
    help="Namespace of the ConfigMaps that VariantAutoscalings are planned by.",
    show_default=True,
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65535),
    help="Serve /metrics, /healthz and /readyz on this port. Default: nowhere.",
)
@click.option("--metrics-host", default="127.0.0.1", help="Address of that port.", show_default=True)
@options.page_token_file
@options.log_level
def controller(
    kubeconfig: Path | None,
    state: Path,
    namespaces: tuple[str, ...],
    workers: int,
    lease: str,
    lease_s: float,
    headgate_image: str,
    host_path_roots: tuple[str, ...],
    gateways: tuple[str, ...],
    gateway_service: str,
    gateway_metrics_port: int,
    gateway_addresses: tuple[str, ...],
    gateway_own_ports: tuple[int, ...],
    gateway_controller_name: str,
    prometheus: str,
    prometheus_token_file: Path | None,
    prometheus_ca_file: Path | None,
    autoscaling_period: float,
    planning_namespace: str,
    metrics_port: int | None,
    metrics_host: str,
    page_token_file: Path | None,
    log_level: str,
) -> None:
    """Run Models, scale workloads by policies, and report the status of Headgate's objects."""
    import asyncio
    import os

    from headgate import cluster, garbage
    from headgate.cli import process
    from headgate.controllers import ControllersConfig, gateway_api, run_controllers
    from headgate.controllers.autoscaling import AutoscalingSettings
    from headgate.controllers.planning import PlanningSettings

    try:
        source = gateway_api.parsed(gateway_addresses)
    except gateway_api.AddressError as error:
        raise click.BadParameter(str(error), param_hint="--gateway-address") from error
    config = ControllersConfig(
        kubeconfig=kubeconfig,
        namespaces=namespaces,
        workers=workers,
        lease=lease,
        lease_s=lease_s,
        headgate_image=headgate_image,
        host_path_roots=host_path_roots,
        autoscaling=AutoscalingSettings(
            period_s=autoscaling_period,
            gateways=gateways,
            gateway_service=gateway_service,
            gateway_port=gateway_metrics_port,
            prometheus=prometheus,
            prometheus_token_file=prometheus_token_file,
            prometheus_ca_file=prometheus_ca_file,
        ),
        planning=PlanningSettings(namespace=planning_namespace, environment=dict(os.environ)),
        gateway_api=gateway_api.GatewayApiSettings(
            controller_name=gateway_controller_name,
            addresses=source,
            service=gateway_service,
            own_ports=gateway_own_ports,
        ),
        metrics_host=metrics_host,
        metrics_port=metrics_port,
        page_token_file=page_token_file,
    )

    def announce() -> None:
        garbage.spare_what_there_is()
        process.say("headgate controller is ready", err=True)

    async def main(stop: asyncio.Event) -> None:
        await run_controllers(config, stop, announce)

    process.run(main, log_level=log_level, known=(cluster.ConfigurationError,))
