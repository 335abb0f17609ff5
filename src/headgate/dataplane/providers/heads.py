"""Heads of requests to external providers, and of their responses: both have only what is listed here.

Nothing of a client's head leaves but the version and the features of Anthropic's API that it names, and a
count of gateways: no credentials, cookies, addresses, traces or ids, and no header that a later version of
something adds.
"""

from __future__ import annotations

from typing import Final

from headgate.requests.client import ClientRequest, Header
from headgate.requests.providers import HOPS, hops_of
from headgate.routing import Provider

_VERSION, _BETA = b"anthropic-version", b"anthropic-beta"
_USUAL_VERSION: Final = b"2023-06-01"
_KEPT: Final = frozenset(
    {
        b"cache-control",
        b"connection",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"retry-after",
        b"transfer-encoding",
    }
)
"""Headers of responses that reach the client: no cookies, account names or rate limits of the operator."""
_PREFIX: Final = "/v1"
"""Of all paths that providers are asked for; part of `prefix` for OpenAI's."""


def request(provider: Provider, key: bytes, asked: ClientRequest, length: int) -> bytes:
    """The head for a request of a client, with a JSON body of this length."""
    path = asked.path
    host = f"[{provider.host}]" if ":" in provider.host else provider.host
    if provider.port != 443:
        host = f"{host}:{provider.port}"
    rest = path.removeprefix(_PREFIX) if provider.shape == "openai" else path
    lines = [
        f"POST {provider.prefix}{rest} HTTP/1.1\r\nhost: {host}\r\n".encode(),
        b"user-agent: headgate\r\n",
        b"accept: application/json, text/event-stream\r\naccept-encoding: identity\r\n",
        b"%b: %d\r\n" % (HOPS, hops_of(asked) + 1),
    ]
    if provider.shape == "anthropic":
        lines.append(b"x-api-key: %b\r\n" % key)
        lines.append(b"anthropic-version: %b\r\n" % (_given(asked, _VERSION) or _USUAL_VERSION))
        if features := _given(asked, _BETA):
            lines.append(b"anthropic-beta: %b\r\n" % features)
    else:
        lines.append(b"authorization: Bearer %b\r\n" % key)
    lines.append(b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % length)
    return b"".join(lines)


def _given(asked: ClientRequest, name: bytes) -> bytes:
    """The values of a header of the client; a list may be spread over several lines."""
    return b", ".join(value for each, value in asked.headers if each == name and value)


def kept(headers: list[Header]) -> list[Header]:
    """The headers of a response that the client may see."""
    return [header for header in headers if header[0] in _KEPT]
