"""Sends queries to one Prometheus server, with credentials, and within limits of size, time and number."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec

from headgate import http_clients
from headgate.planning.settings_map import PrometheusSettings

QUERY_S: Final = 5.0
"""For the response to one query."""
MAX_QUERY_CHARACTERS: Final = 8 * 1024
MAX_RESPONSE_BYTES: Final = 256 * 1024
"""One number has a few hundred; the rest are labels and warnings."""
MAX_OF_ALL: Final = 16
"""Queries at a time."""
MAX_PROBLEM_CHARACTERS: Final = 200
MAX_TOKEN_BYTES: Final = 64 * 1024


class QueryError(Exception):
    """Why a query has no result."""


class Data(msgspec.Struct, frozen=True):
    resultType: str = ""  # noqa: N815 - Prometheus names it
    result: Any = None


class _Answer(msgspec.Struct, frozen=True):
    status: str
    data: Data = Data()
    error: str = ""


class PrometheusClient:
    """One server, which `close` disconnects from."""

    def __init__(self, settings: PrometheusSettings) -> None:
        self._settings = settings
        self._places = asyncio.Semaphore(MAX_OF_ALL)
        self._connected: httpx2.AsyncClient | None = None

    def connect(self) -> None:
        """Read the certificates; else, the first query does. Raises OSError."""
        if self._connected is None:
            transport = http_clients.transport(verify=_context(self._settings))
            self._connected = httpx2.AsyncClient(transport=transport, timeout=httpx2.Timeout(QUERY_S))

    async def close(self) -> None:
        if self._connected is not None:
            await self._connected.aclose()

    async def ask(self, query: str) -> Data:
        """The result of a query at the present time. Raises QueryError."""
        if len(query) > MAX_QUERY_CHARACTERS:
            raise QueryError(f"the query has more than {MAX_QUERY_CHARACTERS} characters")
        try:
            async with self._places, asyncio.timeout(QUERY_S):
                answer = await self._answer(query)
        except TimeoutError:
            raise QueryError(f"Prometheus did not answer within {QUERY_S:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            if isinstance(error, (httpx2.NetworkError, OSError)):
                await self._reconnect()
            told = str(error)[:MAX_PROBLEM_CHARACTERS] or type(error).__name__
            raise QueryError(f"Prometheus cannot be asked: {told}") from error
        if answer.status != "success":
            told = answer.error[:MAX_PROBLEM_CHARACTERS] or "it does not say why"
            raise QueryError(f"Prometheus rejects the query: {told}")
        return answer.data

    async def _reconnect(self) -> None:
        """Certificates are read again, as they may have been renewed since."""
        if self._connected is None or not (self._settings.ca_path or self._settings.client_cert_path):
            return
        connected, self._connected = self._connected, None
        await connected.aclose()

    async def _answer(self, query: str) -> _Answer:
        self.connect()
        assert self._connected is not None
        settings = self._settings
        headers = {"accept": "application/json", "accept-encoding": "identity", **_authorization(settings)}
        form: Mapping[str, str] = {"query": query, "timeout": f"{QUERY_S:g}s"}
        extensions = {"sni_hostname": settings.server_name} if settings.server_name else None
        async with self._connected.stream(
            "POST", f"{settings.url}/api/v1/query", data=form, headers=headers, extensions=extensions
        ) as response:
            body = bytearray()
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > MAX_RESPONSE_BYTES:
                    raise QueryError(
                        f"the response has more than {MAX_RESPONSE_BYTES} bytes: aggregate to one number"
                    )
        try:
            return msgspec.json.decode(body, type=_Answer)
        except (msgspec.MsgspecError, RecursionError):
            raise QueryError(f"Prometheus answers {response.status_code}, with no result") from None


def _context(settings: PrometheusSettings) -> ssl.SSLContext:
    try:
        context = http_clients.verifying(ssl.create_default_context(cafile=settings.ca_path or None))
    except OSError as error:
        raise OSError(f"no certificates can be read from {settings.ca_path}: {error}") from error
    if settings.skips_verification:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if settings.client_cert_path:
        cert, key = settings.client_cert_path, settings.client_key_path
        try:
            # Without a password, OpenSSL would ask for that of an encrypted key on the terminal.
            context.load_cert_chain(cert, key, password="")
        except OSError as error:
            raise OSError(f"{cert} and {key} are no certificate and its key: {error}") from error
    return context


def _authorization(settings: PrometheusSettings) -> dict[str, str]:
    """The token is read from its file each time, as it is renewed there."""
    if settings.bearer_token:
        token, place = settings.bearer_token, "the bearer token"
    elif settings.token_path:
        with Path(settings.token_path).open("rb") as opened:
            token = opened.read(MAX_TOKEN_BYTES).decode("ascii", "replace")
        place = settings.token_path
    else:
        return {}
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable():
        raise QueryError(f"{place} has no valid token")
    return {"authorization": f"Bearer {token}"}
