"""Asks one server what it serves: its list of models, and from its metrics page, which engine it is."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import msgspec

from headgate import engines
from headgate.engine_client import Client, FetchError
from headgate.engines import PageTooLargeError

TIMEOUT_S = 5.0
MAX_BYTES = 4 * 1024 * 1024
MODELS = "/v1/models"
METRICS = "/metrics"


class Listing(msgspec.Struct, frozen=True):
    """What a server lists. Adapters are by name, each with the model that it belongs to."""

    models: frozenset[str] = frozenset()
    adapters: Mapping[str, str] = {}


class AskFailedError(Exception):
    """Why nothing is known, in words that follow the name of a server. `is_down`: it cannot be connected
    to."""

    def __init__(self, message: str, *, is_down: bool = False) -> None:
        super().__init__(message)
        self.is_down = is_down


class Asking:
    """A client of one server."""

    def __init__(
        self, host: str, port: int, prefix: str, tls: ssl.SSLContext | None, server_name: str
    ) -> None:
        self._client = Client(host, port, tls, server_name)
        self._prefix = prefix

    async def models(self) -> Listing:
        """Its list of models. Raises AskFailedError."""
        path = f"{self._prefix}{MODELS}"
        status, body = await self._get(path, "application/json")
        if status in (401, 403):
            raise AskFailedError(
                f"answers {status} to GET {path}: it wants a key, which --endpoint cannot send; "
                "describe its models by --objects instead"
            )
        if status != 200:
            raise AskFailedError(f"answers {status} to GET {path}; is it an engine with OpenAI's API?")
        try:
            found, parents = engines.read_models(body), engines.read_parents(body)
        except ValueError as error:
            raise AskFailedError(f"answers GET {path} with something else: {error}") from error
        return Listing(found.names - found.adapters, parents)

    async def engine(self) -> str:
        """The engine by its metrics page; empty if it is not recognized. Raises AskFailedError."""
        status, body = await self._get(f"{self._prefix}{METRICS}", "text/plain; version=0.0.4")
        if status != 200:
            return ""
        try:
            found = engines.of_page(body)
        except PageTooLargeError:
            return ""
        return found.name if found is not None else ""

    async def _get(self, path: str, accept: str) -> tuple[int, bytes]:
        try:
            response = await self._client.get(path, accept, MAX_BYTES, TIMEOUT_S)
        except FetchError as error:
            cause = error.__cause__
            is_down = isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError)
            raise AskFailedError(str(error), is_down=is_down) from error
        finally:
            self._client.release()
        return response

    def close(self) -> None:
        self._client.close()
