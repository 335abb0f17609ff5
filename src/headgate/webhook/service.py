"""The webhook of one process, from start to stop."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import Callable
from pathlib import Path

import msgspec
import uvicorn

from headgate import cluster, serving
from headgate.serving.protocol import within
from headgate.webhook.app import Application
from headgate.webhook.certificates import Keeper, Tls
from headgate.webhook.references import Followed
from headgate.webhook.rotation import Terms

__all__ = ["WebhookConfig", "run_webhook"]

_USE = serving.Use("the admission webhook", "--host", "--port")


class WebhookConfig(msgspec.Struct, frozen=True, kw_only=True):
    """API server, address, and the objects that the webhook writes."""

    kubeconfig: Path | None = None
    """None for the in-cluster account, $KUBECONFIG or ~/.kube/config."""
    namespaces: tuple[str, ...] = ()
    """Those whose objects are followed; all if there are none."""
    host: str = "0.0.0.0"  # noqa: S104 - API servers connect from other machines
    port: int = 8443
    names: tuple[str, ...]
    """Names and addresses of the certificate."""
    configuration: str
    """Name of the ValidatingWebhookConfiguration."""
    secret: str
    """[NAMESPACE/]NAME of the Secret with the certificates."""
    lease: str
    """[NAMESPACE/]NAME of the Lease of the process that writes both."""
    lease_s: float = 15.0
    valid_s: float = 90 * 86400.0
    """Lifetime of a certificate; it is renewed when a third of that is left."""
    overlap_s: float = 120.0
    """How long a new certificate is trusted before it is served."""
    timeout_s: float = 5.0
    """Limit of a review, as in the configuration."""


async def run_webhook(
    config: WebhookConfig, stop: asyncio.Event, on_ready: Callable[[str], None] = lambda url: None
) -> None:
    """Run until `stop` is set; calls `on_ready` with the URL once it has objects and a certificate.

    Raises ConfigurationError, or OSError if the address cannot be listened on.
    """
    terms = Terms(
        names=config.names,
        valid=datetime.timedelta(seconds=config.valid_s),
        overlap=datetime.timedelta(seconds=config.overlap_s),
    )
    async with cluster.Client.from_kubeconfig(config.kubeconfig) as client:
        lease = client.key_of(config.lease)
        election = cluster.Election(
            client, lease.name, lease.namespace, terms=cluster.Terms.of(config.lease_s)
        )
        tls = Tls()
        key = client.key_of(config.secret)
        keeper = Keeper(client, key, config.configuration, terms, tls, leadership=election)
        followed = Followed(client, config.namespaces)
        application = Application(client, followed, timeout_s=config.timeout_s)
        listener = serving.listening_socket(config.host, config.port, use=_USE)
        async with asyncio.TaskGroup() as tasks:
            runs = tasks.create_task(election.run())
            parts = (keeper.run(), followed.run(), _serve(application, tls, listener))
            works = [tasks.create_task(part) for part in parts]

            async def announce() -> None:
                await followed.loaded()
                await tls.ready.wait()
                application.is_ready = True
                on_ready(f"https://{config.host}:{listener.getsockname()[1]}/validate")

            works.append(tasks.create_task(announce()))
            await stop.wait()
            for task in works:
                task.cancel()
            await asyncio.wait(works)
            runs.cancel()


async def _serve(application: Application, tls: Tls, listener: serving.Listener) -> None:
    """Serve HTTPS until cancelled, as soon as there is a certificate."""
    try:
        await tls.ready.wait()
        limits = serving.Limits(connections=256)
        serving.drop_stalled(listener, limits)
        settings = _settings(application, tls, limits)
        server = serving.EmbeddedServer(settings)
        async with contextlib.aclosing(server):
            await server.serve(sockets=[listener])
    finally:
        listener.close()


def _settings(application: Application, tls: Tls, limits: serving.Limits) -> uvicorn.Config:
    settings = serving.configuration(application, http=within(limits, _ignored), timeout_graceful_shutdown=1)
    settings.load()
    settings.ssl = tls.context
    return settings


def _ignored(reason: serving.Reason) -> None:
    """A connection was closed for exceeding a limit."""
