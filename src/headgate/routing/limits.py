"""How many tokens the traffic of a route may use, from `rateLimit` of its ModelRoute."""

from __future__ import annotations

import msgspec

from headgate.api.kthena_networking import RateLimit

UNITS_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "month": 30 * 86_400}


class TokenLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens in each unit of time, of all requests of a route together; None is any number."""

    input: int | None = None
    output: int | None = None
    unit: str
    unit_s: int
    redis_address: str | None = None
    """host:port of the Redis where all gateways count together; None where each counts for itself."""


def token_limits(written: RateLimit | None) -> TokenLimits | None:
    """What is in force; None where nothing is limited."""
    if written is None:
        return None
    if written.input_tokens_per_unit is None and written.output_tokens_per_unit is None:
        return None
    shared = written.global_.redis if written.global_ is not None else None
    return TokenLimits(
        input=written.input_tokens_per_unit,
        output=written.output_tokens_per_unit,
        unit=written.unit,
        unit_s=UNITS_S[written.unit],
        redis_address=shared.address if shared is not None else None,
    )
