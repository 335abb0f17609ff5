"""`headgate webhook`: the validating admission webhook."""

from pathlib import Path

import click

from headgate.cli import options


@click.command()
@options.process
@options.namespaces
@click.option("--host", default="0.0.0.0", help="Address to listen on.", show_default=True)  # noqa: S104
@click.option(
    "--port",
    default=8443,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 takes a free one.",
    show_default=True,
)
@click.option(
    "--name",
    "names",
    multiple=True,
    required=True,
    metavar="NAME",
    help="DNS name or address by which API servers reach the webhook, such as SERVICE.NAMESPACE.svc.",
)
@click.option(
    "--configuration",
    required=True,
    metavar="NAME",
    help="The ValidatingWebhookConfiguration that gets the CAs of the certificates.",
)
@click.option(
    "--secret",
    required=True,
    metavar="[NAMESPACE/]NAME",
    help="The Secret with the certificates. Default namespace: that of the kubeconfig, or of the Pod.",
)
@click.option(
    "--lease",
    required=True,
    metavar="[NAMESPACE/]NAME",
    help="Of several processes, the one that holds this Lease renews the certificates.",
)
@click.option(
    "--lease-s",
    default=15.0,
    type=click.FloatRange(1.0, 3600.0),
    metavar="SECONDS",
    help="How long after its last renewal of the Lease another process takes over.",
    show_default=True,
)
@click.option(
    "--valid-s",
    default=90 * 86400.0,
    type=click.FloatRange(3.0, 10 * 365 * 86400.0),
    metavar="SECONDS",
    help="Lifetime of a certificate. It is renewed when a third of that is left.",
    show_default=True,
)
@click.option(
    "--overlap-s",
    default=120.0,
    type=click.FloatRange(0.2, 86400.0),
    metavar="SECONDS",
    help="How long API servers have to load the CA of a new certificate before it is served.",
    show_default=True,
)
@click.option(
    "--timeout-s",
    default=5.0,
    type=click.FloatRange(0.5, 30.0),
    metavar="SECONDS",
    help="A review that takes longer is allowed.",
    show_default=True,
)
@options.log_level
def webhook(
    kubeconfig: Path | None,
    state: Path,
    namespaces: tuple[str, ...],
    host: str,
    port: int,
    names: tuple[str, ...],
    configuration: str,
    secret: str,
    lease: str,
    lease_s: float,
    valid_s: float,
    overlap_s: float,
    timeout_s: float,
    log_level: str,
) -> None:
    """Serve a validating admission webhook with the rules that a cluster cannot enforce itself.

    It issues its certificates itself, keeps them in a Secret, and renews them before they expire.
    """
    import asyncio

    from headgate import cluster
    from headgate.cli import process
    from headgate.webhook import WebhookConfig, run_webhook

    if overlap_s * 2 > valid_s / 3:
        told = f"--overlap-s must be at most a sixth of --valid-s, which is {valid_s:g}: {overlap_s:g}"
        raise click.UsageError(told)
    config = WebhookConfig(
        kubeconfig=kubeconfig,
        namespaces=namespaces,
        host=host,
        port=port,
        names=names,
        configuration=configuration,
        secret=secret,
        lease=lease,
        lease_s=lease_s,
        valid_s=valid_s,
        overlap_s=overlap_s,
        timeout_s=timeout_s,
    )

    def announce(url: str) -> None:
        process.say(f"headgate webhook is ready: {url}", err=True)

    async def main(stop: asyncio.Event) -> None:
        await run_webhook(config, stop, announce)

    process.run(main, log_level=log_level, known=(cluster.ConfigurationError,))
