"""`headgate health`: check the process of a container, for the health check of its image."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from headgate.cli import addresses, options

_COMMAND_LINE = Path("/proc/1/cmdline")
_NAME_IT = "name the health page: headgate health URL"

Parameters = dict[str, Any]
"""Of a command, by name, as click parsed them."""


class Check(NamedTuple):
    """One request that a healthy process answers."""

    page: str
    """For messages."""
    request: Callable[[], Awaitable[str]]
    """Returns the problem; empty if there is none."""

    async def problem(self, timeout_s: float) -> str:
        try:
            async with asyncio.timeout(timeout_s):
                return await self.request()
        except TimeoutError:
            return f"no response within {timeout_s:g} s"


@click.command()
@click.argument("url", required=False)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1, 60),
    default=4.0,
    metavar="SECONDS",
    help="Maximum time for the responses.",
)
@options.output("text", "json")
def health(url: str | None, timeout_s: float, output: str) -> None:
    """Check the command that runs as process 1 of this container.

    Requests its health pages where its command line and settings say that they are: /healthz of a gateway, of
    a webhook, and of a controller with --metrics-port; /livez of an API server; both for `headgate up`;
    /health of a simulated engine and of the sidecar of an engine. Other commands have none, and are healthy
    while they run. With URL, asks for that page instead.

    The exit code is 0 if all of them respond with 200, otherwise 1.

    Example: headgate health http://127.0.0.1:8081/readyz
    """
    from headgate.cli import process

    words = [] if url else _words_of_process_1()
    checks = [_page(url)] if url else _checks(words)

    async def ask() -> list[str]:
        return await asyncio.gather(*(check.problem(timeout_s) for check in checks))

    problems = process.run_once(ask)
    found = [(check.page, problem) for check, problem in zip(checks, problems, strict=True)]
    if output == "json":
        click.echo(json.dumps([{"page": page, "problem": problem} for page, problem in found]))
    elif not found:
        click.echo(f"headgate {words[0] if words else ''} runs; it has no health page")
    else:
        for page, problem in found:
            click.echo(f"{page}: {problem or 'ok'}", err=bool(problem))
    if any(problems):
        raise SystemExit(1)


def _words_of_process_1() -> list[str]:
    """The arguments of headgate there, also below a small init such as tini."""
    try:
        words = _COMMAND_LINE.read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError as error:
        raise click.ClickException(f"cannot read {_COMMAND_LINE}: {error.strerror}; {_NAME_IT}") from error
    for place, word in enumerate(words):
        if Path(word).name == "headgate":
            return words[place + 1 :]
    raise click.ClickException(f"process 1 is not headgate, but {words[0] if words else '?'}; {_NAME_IT}")


def _checks(words: Sequence[str]) -> list[Check]:
    """Of the command with these arguments; none if it has no health page."""
    match words:
        case ["gateway", *rest]:
            from headgate.cli.gateway import gateway

            given = _parsed(gateway, rest)
            return [_gateway(given, given["config"])]
        case ["apiserver", *rest]:
            from headgate.cli.apiserver import apiserver

            return [_api_server(_parsed(apiserver, rest))]
        case ["up", *rest]:
            from headgate.cli.up import up

            given = _parsed(up, rest)
            return [_api_server(given), _gateway(given, given["gateway_config"])]
        case ["controller", *rest]:
            from headgate.cli.controller import controller

            given = _parsed(controller, rest)
            if given["metrics_port"] is not None:
                return [_local_page(given["metrics_host"], given["metrics_port"], "/healthz")]
        case ["webhook", *rest]:
            from headgate.cli.webhook import webhook

            given = _parsed(webhook, rest)
            return [_local_page(given["host"], given["port"], "/healthz", is_tls=True)]
        case ["simulate", "engine", *rest]:
            from headgate.cli.simulate.engine import engine

            return [_engine(_parsed(engine, rest))]
        case ["runtime", *rest]:
            from headgate.cli.runtime import runtime

            given = _parsed(runtime, rest)
            return [_local_page(given["host"], given["port"], "/health")]
    return []


def _parsed(command: click.Command, words: Sequence[str]) -> Parameters:
    return command.make_context(command.name, [*words], resilient_parsing=True).params


def _gateway(given: Parameters, file: Path | None) -> Check:
    from headgate.cli.gateway import configuration, flags
    from headgate.gateway import old_settings, setting_types

    names = setting_types.by_key().keys() | old_settings.RENAMED.keys()
    said = flags.said({name: value for name, value in given.items() if name in names})
    try:
        admin = configuration.judge(file, said).settings.admin
    except configuration.ConfigurationErrors as error:
        raise click.ClickException(error.shown()) from error
    if admin.port == 0:
        raise click.ClickException(
            f"admin.port is 0, so the gateway's port is random; set one, or {_NAME_IT}"
        )
    return _local_page(admin.host, admin.port, "/healthz")


def _api_server(given: Parameters) -> Check:
    from headgate import cluster

    kubeconfig = given["state"] / "kubeconfig"

    async def ask() -> str:
        try:
            async with cluster.Client.from_kubeconfig(kubeconfig) as client:
                await client.ask("GET", "/livez")
        except (cluster.ConfigurationError, cluster.ApiError) as error:
            return str(error)
        return ""

    return Check(f"/livez of the API server of {kubeconfig}", ask)


def _engine(given: Parameters) -> Check:

    is_tls = given["ssl_certfile"] or given["self_signed_certs"]
    return _local_page(given["host"], given["port"], "/health", is_tls=bool(is_tls))


def _local_page(host: str, port: int, path: str, *, is_tls: bool = False) -> Check:
    """Of a server of this machine that listens on `host`."""
    url = addresses.local_url(host, port)
    return _page((url.replace("http:", "https:", 1) if is_tls else url) + path)


def _page(url: str) -> Check:
    """The certificate of a page with TLS is not verified: nothing secret is sent."""
    import httpx2

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    async def ask() -> str:
        try:
            async with (
                httpx2.AsyncClient(verify=context, trust_env=False) as http,
                http.stream("GET", url) as response,
            ):
                status = response.status_code
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            return str(error) or type(error).__name__
        return "" if status == 200 else f"returned {status}"

    return Check(url, ask)
