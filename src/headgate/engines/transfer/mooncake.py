"""Mooncake's transfer engine beneath vLLM: the requests are those of NIXL."""

from __future__ import annotations

from typing import ClassVar

from headgate.engines.transfer.nixl import Nixl


class Mooncake(Nixl):
    name: ClassVar[str] = "mooncake"
