"""LMCache carries the blocks: requests are those of `http`, as its servers find blocks by their hashes."""

from __future__ import annotations

from typing import ClassVar

from headgate.engines.transfer.http import Http


class LMCache(Http):
    name: ClassVar[str] = "lmcache"
