"""The load that a plan was made for, as an annotation of its VariantAutoscalings.

Who may read the objects can then make the same plan, and others for comparison, without a question to the
controller or its gateways.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from headgate.planning.load import Load

__all__ = ["PlannedLoad", "is_clear", "read"]

_CHANGE: Final = 0.1
"""Of an amount, relative to the larger one."""
_CACHED: Final = 0.05
_DIGITS: Final = 4
_MOST: Final = 1024
"""Characters of an annotation."""

Amount = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


class PlannedLoad(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Requests for a model in a namespace, as planned for all of its variants together."""

    requests_per_minute: Amount
    prompt_tokens: Amount = 0.0
    """Of the mean request, those in caches included."""
    output_tokens: Amount = 0.0
    cached_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """Of the prompt tokens: they need no prefill."""
    prompt_spread: Amount = 0.0
    """Variance of the others, as a multiple of the square of their mean."""
    idle: bool = False
    """Whether the model may have no replicas, since its last request was too long ago."""

    @classmethod
    def of(cls, load: Load, *, idle: bool) -> PlannedLoad:
        return cls(
            requests_per_minute=0.0 if idle else _rounded(load.arrivals_per_s * 60),
            prompt_tokens=_rounded(load.prompt_tokens),
            output_tokens=_rounded(load.output_tokens),
            cached_share=_rounded(load.cached_share),
            prompt_spread=_rounded(load.prompt_spread),
            idle=idle,
        )

    @property
    def load(self) -> Load:
        return Load(
            arrivals_per_s=self.requests_per_minute / 60,
            prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
            cached_share=self.cached_share,
            prompt_spread=self.prompt_spread,
        )

    def written(self) -> str:
        return msgspec.json.encode(self).decode()


def read(text: str | None) -> PlannedLoad | None:
    """From the annotation; None without one, or if it cannot be read."""
    if text is None or len(text) > _MOST:
        return None
    try:
        return msgspec.json.decode(text, type=PlannedLoad)
    except (msgspec.MsgspecError, RecursionError):
        return None


def is_clear(before: PlannedLoad | None, due: PlannedLoad) -> bool:
    """Whether the annotation should be written again for what has changed."""
    if before is None or before.idle != due.idle or abs(before.cached_share - due.cached_share) > _CACHED:
        return True
    pairs = (
        (before.requests_per_minute, due.requests_per_minute),
        (before.prompt_tokens, due.prompt_tokens),
        (before.output_tokens, due.output_tokens),
        (1 + before.prompt_spread, 1 + due.prompt_spread),
    )
    return any(abs(new - old) > _CHANGE * max(old, new) for old, new in pairs)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
