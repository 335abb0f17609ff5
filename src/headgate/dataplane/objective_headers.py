"""The headers with the time in which a client wants its first token."""

from __future__ import annotations

import math
from typing import Final

OBJECTIVES_MS: Final = (b"x-llm-d-slo-ttft-ms", b"x-slo-ttft-ms")
MAX_S: Final = 1e9
"""Longer times count as none."""


def positive(value: bytes) -> float:
    """The number above 0 in a header; anything else counts as infinite."""
    try:
        number = float(value)
    except ValueError:
        return math.inf
    return number if 0 < number < MAX_S else math.inf
