"""`headgate route explain`: the command."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headgate.cli import options

if TYPE_CHECKING:
    from headgate.cli.objects.connecting import Server

MAX_BODY_BYTES = 64 * 1024 * 1024


@click.group()
def route() -> None:
    """Explain how requests are routed."""


@route.command()
@click.option(
    "-f",
    "--filename",
    "file",
    type=click.Path(allow_dash=True),
    metavar="FILE|-",
    help="Request body; -: standard input. Optional with --model.",
)
@click.option("--path", default="/v1/chat/completions", help="Request path.")
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="Request header; repeatable."
)
@click.option("--model", help="Model of the request; overrides the one in its body.")
@click.option(
    "--host",
    metavar="HOST",
    help="Explain a request to a Gateway for this host: which rule of which HTTPRoute takes it.",
)
@click.option(
    "--port", type=click.IntRange(1, 65535), help="With --host: port of the listener. Default: all."
)
@click.option("--method", default="GET", help="With --host: method of the request.")
@click.option(
    "--objects",
    multiple=True,
    type=click.Path(allow_dash=True),
    metavar="FILE|DIRECTORY",
    help="Explain from these manifests, without a server; repeatable.",
)
@click.option(
    "--gateway",
    metavar="URL",
    help="Ask a running gateway through its admin port: http://localhost:8081. It knows the load "
    "and health of its endpoints, and which target is next.",
)
@click.option("-n", "--namespace", help="Only objects of this namespace. Default: all.")
@options.server
@options.output("text", "json")
def explain(
    file: str | None,
    path: str,
    headers: tuple[str, ...],
    model: str | None,
    host: str | None,
    port: int | None,
    method: str,
    objects: tuple[str, ...],
    gateway: str | None,
    namespace: str | None,
    server: Server,
    output: str,
) -> None:
    """Explain where a request would go, and why nowhere else, without sending it.

    Uses the objects of the API server, unless --objects or --gateway is given. Exits with 1 if the request
    would be rejected.

    With --host, explains the HTTPRoutes of Gateways instead of model names.

    Example: headgate route explain --model sim-8b --objects examples/quickstart
    """
    from headgate.cli.route import rendering, sources

    if objects and gateway:
        raise click.UsageError("--objects and --gateway cannot be combined")
    if host is not None:
        if file is not None or model is not None or gateway:
            raise click.UsageError("--host explains HTTPRoutes: omit -f, --model and --gateway")
        _explain_http_route(method, host, port, path, headers, objects, server, output)
        return
    if file is None and model is None:
        raise click.UsageError("no request: pass its body with -f, or use --model")
    if not path.startswith("/") or not path.isprintable() or not path.isascii() or " " in path:
        raise click.UsageError(f"--path {path!r}: must be a path such as /v1/completions")
    asked = sources.Asked(path, [_header(text) for text in headers], _body(file, model))
    if gateway:
        found = sources.from_gateway(gateway, asked)
    elif objects:
        found = sources.from_manifests(list(objects), namespace, asked)
    else:
        found = sources.from_server(server, namespace, asked)
    click.echo(rendering.as_json(found) if output == "json" else rendering.as_text(found), nl=False)
    if rendering.is_refused(found):
        raise SystemExit(1)


def _explain_http_route(
    method: str,
    host: str,
    port: int | None,
    path: str,
    headers: tuple[str, ...],
    objects: tuple[str, ...],
    server: Server,
    output: str,
) -> None:
    from headgate.cli.route import http_routes

    asked = http_routes.Asked(method, host, path, tuple(_header(text) for text in headers), port)
    asked.head()
    if objects:
        found = http_routes.from_manifests(list(objects), asked)
    else:
        found = http_routes.from_server(server, asked)
    text = http_routes.as_json(found) if output == "json" else http_routes.as_text(asked, found)
    click.echo(text, nl=False)
    if http_routes.is_refused(found):
        raise SystemExit(1)


def _header(text: str) -> tuple[bytes, bytes]:
    """Parse "x-tier=premium" or "x-tier: premium"."""
    separator = "=" if "=" in text and (":" not in text or text.index("=") < text.index(":")) else ":"
    name, found, value = text.partition(separator)
    if not found or not name.strip() or not text.isprintable():
        raise click.UsageError(f"--header {text!r}: must be NAME=VALUE")
    try:
        return name.strip().lower().encode("ascii"), value.strip().encode()
    except UnicodeEncodeError:
        raise click.UsageError(f"--header {text!r}: the name must be ASCII and the value UTF-8") from None


def _body(file: str | None, model: str | None) -> bytes:
    if file is None:
        return json.dumps({"model": model}).encode()
    try:
        body = sys.stdin.buffer.read(MAX_BODY_BYTES) if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from error
    if model is None:
        return body
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise click.ClickException(f"{file}: --model needs a body in JSON: {error}") from error
    if not isinstance(content, dict):
        raise click.ClickException(f"{file}: --model needs a body that is a JSON object")
    return json.dumps(content | {"model": model}).encode()
