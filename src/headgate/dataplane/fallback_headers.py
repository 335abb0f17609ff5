"""The response headers of a request that another model or pool took over."""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.requests.life import Life

MODEL, FALLBACK = b"x-headgate-model", b"x-headgate-fallback"
MAX_CHARACTERS = 256
_SAFE = "/:.,-_[]()*+@!~"


def lines(life: Life) -> bytes:
    """`x-headgate-model` is the model that responded, `x-headgate-fallback` what was left and why, in order.
    Other characters than letters, digits and the usual ones are percent-encoded."""
    fallen = life.fallen
    assert fallen is not None
    left = ", ".join(f"{_quoted(hop.model)};{hop.reason}" for hop in fallen.hops)
    served = _quoted(life.decision.model)
    return b"%b: %b\r\n%b: %b\r\n" % (MODEL, served.encode(), FALLBACK, left.encode())


def _quoted(name: str) -> str:
    return urllib.parse.quote(name[:MAX_CHARACTERS], safe=_SAFE, errors="replace")
