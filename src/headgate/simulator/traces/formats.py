"""The formats by name, and which one a file is in."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headgate.simulator.traces import burstgpt
from headgate.simulator.traces.azure import HEADING, Azure
from headgate.simulator.traces.lines import LineReader
from headgate.simulator.traces.mooncake import Mooncake


class TraceFormat(msgspec.Struct, frozen=True, kw_only=True):
    """A way in which traces are published."""

    name: str
    reader: Callable[[], LineReader]
    """Makes the reader of one file."""
    has_prefixes: bool
    """Whether it says which prompts begin alike."""


FORMATS: dict[str, TraceFormat] = {
    "mooncake": TraceFormat(name="mooncake", reader=Mooncake, has_prefixes=True),
    "azure": TraceFormat(name="azure", reader=Azure, has_prefixes=False),
    "burstgpt": TraceFormat(name="burstgpt", reader=burstgpt.BurstGpt, has_prefixes=False),
}


def detect(first_line: bytes) -> str | None:
    """The name of the format whose file begins with this line; None if it is none of them."""
    line = first_line.removeprefix(b"\xef\xbb\xbf").strip()
    if line.startswith(b"{"):
        return "mooncake"
    columns = [cell.strip().lower() for cell in line.split(b",")]
    if burstgpt.HEADING[1].lower().encode() in columns:
        return "burstgpt"
    return "azure" if HEADING[0].lower().encode() in columns else None
