"""Keep the ratio of two roles, such as prefill and decode replicas, inside a range."""

from __future__ import annotations

import math
from typing import NamedTuple

from headgate.autoscaling.policy import Bounds

__all__ = ["RatioRange", "repaired"]

_ROUNDING = 1e-9


class RatioRange(NamedTuple):
    """Smallest and largest allowed numerator / denominator, above 0."""

    minimum: float
    maximum: float


def repaired(
    numerator: int,
    denominator: int,
    allowed: RatioRange,
    numerator_bounds: Bounds,
    denominator_bounds: Bounds,
) -> tuple[int, int]:
    """The two numbers inside their bounds, with a ratio inside the range where the bounds allow it.

    Replicas are added to the role that has too few; only where its maximum forbids that, the other loses
    some. Both at zero stay there; one alone does not.
    """
    numerator = _clamped(numerator, numerator_bounds)
    denominator = _clamped(denominator, denominator_bounds)
    if numerator == 0 and denominator == 0:
        return 0, 0
    numerator = numerator or _clamped(1, numerator_bounds)
    denominator = denominator or _clamped(1, denominator_bounds)
    if not numerator or not denominator:
        return numerator, denominator
    if numerator / denominator < allowed.minimum - _ROUNDING:
        raised = math.ceil(allowed.minimum * denominator - _ROUNDING)
        if raised <= numerator_bounds.maximum:
            return raised, denominator
        numerator = numerator_bounds.maximum
        return numerator, _clamped(math.floor(numerator / allowed.minimum + _ROUNDING), denominator_bounds)
    if numerator / denominator > allowed.maximum + _ROUNDING:
        raised = math.ceil(numerator / allowed.maximum - _ROUNDING)
        if raised <= denominator_bounds.maximum:
            return numerator, raised
        denominator = denominator_bounds.maximum
        return _clamped(math.floor(allowed.maximum * denominator + _ROUNDING), numerator_bounds), denominator
    return numerator, denominator


def _clamped(number: int, bounds: Bounds) -> int:
    return min(max(number, bounds.minimum), bounds.maximum)
