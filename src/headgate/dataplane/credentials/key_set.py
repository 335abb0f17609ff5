"""The public keys of an issuer of tokens, from a file or a URL, followed as they are rotated."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable
from pathlib import Path

import httpx2

from headgate import http_clients, private_files
from headgate.auth import tokens
from headgate.dataplane.credentials.aside import aside

log = logging.getLogger(__name__)

REFRESH_S = 300.0
"""How often the keys are fetched; also at once for a token with an unknown key."""
LEAST_S = 10.0
"""Between two fetches for unknown keys, which anybody can invent."""
RETRY_S = 5.0
TIMEOUT_S = 10.0
MAX_BYTES = 1024 * 1024


class KeySet:
    """Keeps the last good keys while the source cannot be read. `run` follows it."""

    def __init__(self, source: str, changed: Callable[[], None]) -> None:
        """`source`: URL or file. `changed` is called when there are other keys."""
        self.source = source
        self.keys: tokens.Keys = {}
        self.trouble = "not read yet"
        """Why the source could not be read the last time; empty if it could."""
        self.fetched_at = 0.0
        """In seconds since 1970, when it last could."""
        self.tried = asyncio.Event()
        """Set once it was read, or could not be: within TIMEOUT_S."""
        self._changed = changed
        self._content = b""
        self._wanted = asyncio.Event()
        self._began_at = -LEAST_S

    def want(self) -> bool:
        """A token names an unknown key. Returns whether newer keys may come soon."""
        if not self._wanted.is_set() and time.monotonic() - self._began_at < LEAST_S:
            return not self.keys and bool(self.trouble)
        self._wanted.set()
        return True

    async def run(self) -> None:
        """Follow the source until cancelled."""
        while True:
            self._began_at = time.monotonic()
            await self._read()
            self.tried.set()
            self._wanted.clear()
            try:
                async with asyncio.timeout(RETRY_S if self.trouble else REFRESH_S):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    async def _read(self) -> None:
        try:
            content = await self._fetched()
            if content != self._content:
                self.keys = await aside(functools.partial(tokens.read_keys, content))
                self._content = content
                self._changed()
            self.trouble, self.fetched_at = "", time.time()
        except Exception as error:  # whatever an issuer publishes must not end the gateway
            if not isinstance(error, OSError | ValueError | httpx2.HTTPError | httpx2.InvalidURL):
                log.exception("auth.jwt_keys: reading %s", self.source)
            trouble = str(error) or type(error).__name__
            if trouble != self.trouble:
                log.warning("auth.jwt_keys: %s cannot be read: %s; the last keys stay", self.source, trouble)
            self.trouble = trouble

    async def _fetched(self) -> bytes:
        if not is_url(self.source):
            content = private_files.read(Path(self.source), MAX_BYTES + 1)
        else:
            async with (
                asyncio.timeout(TIMEOUT_S),
                httpx2.AsyncClient(transport=http_clients.transport(), timeout=TIMEOUT_S) as client,
                client.stream("GET", self.source) as response,
            ):
                if response.status_code != 200:
                    raise ValueError(f"it responded {response.status_code}")
                content = b""
                async for piece in response.aiter_bytes():
                    content += piece
                    if len(content) > MAX_BYTES:
                        break
        if len(content) > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES} bytes")
        return content


def is_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))
