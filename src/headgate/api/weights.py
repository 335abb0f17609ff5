"""Weights of Pods within a pool: how many requests each should get, relative to the others.

A Pod may have its own, as an annotation of its template. A pool may have some for Pods by their labels, which
is how a planner tells gateways what it has planned: one write for any number of Pods, also for those that
come later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec

from headgate.api import marks
from headgate.api.marks import InvalidAnnotationError
from headgate.api.meta import LabelSelector, Part

__all__ = ["LEAST", "MOST", "USUAL", "Weighed", "of_pod", "of_pool", "written"]

USUAL: Final = 1.0
"""Of a Pod that nobody has given a weight."""
LEAST, MOST = 0.001, 1000.0
_NUMBER = re.compile(r"[0-9]{1,4}(\.[0-9]{1,9})?")
_EXAMPLE = '[{"weight": 2.5, "selector": {"matchLabels": {"app": "large"}}}]'


class Weighed(Part, frozen=True, kw_only=True):
    """The weight of each Pod with some labels."""

    weight: Annotated[float, msgspec.Meta(ge=LEAST, le=MOST)]
    selector: LabelSelector


def of_pod(annotations: Mapping[str, str]) -> float | None:
    """A Pod's own weight; None without one. Raises InvalidAnnotationError."""
    given = annotations.get(marks.WEIGHT)
    if given is None:
        return None
    weight = float(given) if _NUMBER.fullmatch(given) else 0.0
    if not LEAST <= weight <= MOST:
        told = f"{given[:64]!r} is not a number from {LEAST} to {MOST:.0f}, such as 2.5"
        raise InvalidAnnotationError(marks.WEIGHT, told)
    return weight


def of_pool(annotations: Mapping[str, str]) -> Sequence[Weighed]:
    """Weights in a pool's annotation; the first that matches a Pod counts. Raises InvalidAnnotationError."""
    given = annotations.get(marks.WEIGHTS)
    if given is None:
        return ()
    try:
        return _DECODER.decode(given)
    except (msgspec.MsgspecError, RecursionError) as error:
        told = f"{given[:64]!r} is not a list such as {_EXAMPLE}: {error}"
        raise InvalidAnnotationError(marks.WEIGHTS, told[:512]) from error


def written(weights: Sequence[Weighed]) -> str:
    """The annotation with these weights."""
    return msgspec.json.encode(weights).decode()


_DECODER = msgspec.json.Decoder(list[Weighed])
