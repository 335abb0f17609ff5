"""What another proxy, which asks for a pick, says about a request."""

from __future__ import annotations

import msgspec

from headgate.requests.subset import Subset


class Proxied(msgspec.Struct, frozen=True, kw_only=True):
    """Of one request."""

    subset: Subset | None = None
    """The only endpoints that may serve it; None for all of its pool."""
    asks_for_usage: bool = True
    """Whether the counts of a stream may be asked for, which the shell removes from the response."""
    model: str = ""
    """The model name that the endpoint gets; empty for the one by the objects. An InferenceModelRewrite takes
    precedence."""
