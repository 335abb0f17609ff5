"""The settings of the exchange with other processes, and the secret that they have in common."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from headgate import private_files

MIN_TOKEN_BYTES = 16
MAX_TOKEN_BYTES = 4096
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class ConfigurationError(Exception):
    """The settings do not go together; the message names the setting and the fix."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is told; the section `peers` documents these settings for users."""

    addresses: tuple[str, ...] = ()
    """Other processes, as host:port; one may be this process itself."""
    host: str = "127.0.0.1"
    port: int = 0
    advertise: str = ""
    """The host in this process's Lease; empty for `host`."""
    token_file: str | None = None
    finds: bool = False
    """Whether processes find each other by their Leases."""
    period_s: float = 0.02
    """Between two reports."""

    @property
    def is_on(self) -> bool:
        return bool(self.addresses) or self.finds


class Secret:
    """What members prove to know. Without a token, only processes of this machine are members."""

    def __init__(self, token: bytes) -> None:
        self._token = token

    @classmethod
    def of(cls, settings: Settings) -> Secret:
        """Raises ConfigurationError."""
        secret = cls(_token(settings.token_file))
        addresses = (*settings.addresses, f"{settings.host}:{settings.port}")
        for address in addresses if secret.is_local else ():
            if not is_loopback(split(address)[0]):
                raise ConfigurationError(
                    f"peers: {address} is not on this machine, and peers.token_file is missing: write a "
                    "token of at least 16 bytes into a file, the same for all, and name it there"
                )
        return secret

    @property
    def is_local(self) -> bool:
        """Whether only connections from and to loopback addresses are allowed."""
        return not self._token

    @property
    def key(self) -> bytes:
        """Equal in all members; known to nobody else, except on this machine if there is no token."""
        return self._token or _machine()


def _token(path: str | None) -> bytes:
    if path is None:
        return b""
    try:
        token = private_files.read(Path(path), MAX_TOKEN_BYTES + 1).strip()
    except OSError as error:
        raise ConfigurationError(
            f"peers.token_file: cannot read {path}: {error.strerror or error}"
        ) from error
    if not MIN_TOKEN_BYTES <= len(token) <= MAX_TOKEN_BYTES:
        raise ConfigurationError(
            f"peers.token_file: {path} has a token of {len(token)} bytes; write {MIN_TOKEN_BYTES} to "
            f"{MAX_TOKEN_BYTES} random ones"
        )
    return token


def _machine() -> bytes:
    """The same for all processes of a user since this machine started."""
    try:
        boot = _BOOT.read_bytes()
    except OSError:  # not Linux: prompts are not shared without a token
        boot = os.urandom(16)
    return boot + str(os.getuid() if hasattr(os, "getuid") else 0).encode()


def split(address: str) -> tuple[str, int]:
    """Host and port. Raises ConfigurationError."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit() and int(port[:6]) <= 65_535):
        raise ConfigurationError(f"peers: {address[:100]!r} is not host:port, such as 10.0.0.7:9004")
    return host, int(port)


def address_problems(addresses: Sequence[str]) -> list[str]:
    """What is wrong with addresses."""
    found = []
    for address in addresses:
        try:
            split(address)
        except ConfigurationError as error:
            found.append(str(error).removeprefix("peers: "))
    return found


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, without asking a name server."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
