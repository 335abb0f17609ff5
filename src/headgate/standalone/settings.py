"""What the objects are made of, as an operator wrote it."""

from __future__ import annotations

import msgspec

from headgate.standalone.urls import EndpointUrl


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the objects come from."""

    urls: tuple[EndpointUrl, ...] = ()
    files: tuple[str, ...] = ()
    ask_s: float = 2.0
    resolve_s: float = 10.0
    dns_servers: tuple[str, ...] = ()
