"""Numbers and names as the reference autoscaler writes them in metrics, statuses and logs."""

from __future__ import annotations

import math
import re
from typing import Final

__all__ = ["finite", "measured", "objective_priority", "ratio", "suggested_name", "tokens"]

_MOST_TOKENS: Final = 2**31 - 1
_WHOLE_TOKENS: Final = 100
_DASHES: Final = str.maketrans("/.", "--")
_UNUSABLE: Final = re.compile(r"[^a-z0-9-]+")


def finite(value: float) -> float:
    """0 for what is no number, or infinite."""
    return value if math.isfinite(value) else 0.0


def measured(text: str | float) -> float:
    """A measured amount; 0 for text that is no number, and for negative ones."""
    try:
        return max(0.0, finite(float(text)))
    except ValueError:
        return 0.0


def tokens(text: str | float) -> float:
    """A mean number of tokens, within 32 bits. From 100 on it is whole, so that about equal loads need one
    sizing."""
    value = min(measured(text), _MOST_TOKENS)
    return float(math.floor(value)) if value >= _WHOLE_TOKENS else value


def ratio(current: int, desired: int) -> float:
    """By what replicas are to be multiplied; the desired number itself if there are none."""
    return desired / current if current else float(desired)


def suggested_name(variant_id: str) -> str:
    """A name for the object of a variant; "" if nothing of the ID can be in a name."""
    return _UNUSABLE.sub("", variant_id.lower().translate(_DASHES)).strip("-")


def objective_priority(class_priority: int) -> int:
    """The priority of an InferenceObjective for requests of a service class.

    Class 1, the most important, has 99, and class 100 has 0, which is that of requests without an objective.
    Larger numbers are more important there, and none is negative: such requests may be dropped.
    """
    return 100 - min(max(class_priority, 1), 100)
