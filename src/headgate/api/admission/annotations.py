"""Checks Headgate's annotations: unknown, incomplete or invalid ones."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection

from headgate.api import fallbacks, marks, weights
from headgate.api.admission import durations
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.index_keys import ADAPTER, MODEL, IndexKey
from headgate.api.admission.references import View
from headgate.api.marks import ANNOTATIONS, EndpointTls, InvalidAnnotationError

__all__ = [
    "check_fallbacks",
    "warn_of_grace",
    "warn_of_misspelled_fallbacks",
    "warn_of_own",
    "warn_of_start",
    "warn_of_tls",
    "warn_of_weights",
]


def warn_of_own(kinds: str, annotations: FieldCursor, known: Collection[str], found: Findings) -> None:
    """Warn of annotations that are not `known`; `kinds` is the kind in the plural."""
    written = annotations.texts
    for name in written:
        if name.startswith(marks.DOMAIN) and name not in known:
            near = difflib.get_close_matches(name, sorted(known), 1, 0.8)
            told = f"; did you mean {near[0]}?" if near else ""
            found.warn(annotations.key(name), f"no annotation of {kinds} has this name{told}")
    for name in (marks.KV_EVENTS_REPLAY, marks.KV_EVENTS_RANKS):
        if name in written and marks.KV_EVENTS not in written:
            told = f"has an effect only on Pods that have {marks.KV_EVENTS} themselves"
            found.warn(annotations.key(name), told)


def warn_of_misspelled_fallbacks(kinds: str, annotations: FieldCursor, found: Findings) -> None:
    """Warn of annotations that are probably meant to be those of fallbacks, on kinds that have no others."""
    for name in annotations.texts:
        if name.startswith(marks.DOMAIN) and name not in marks.OF_FALLBACKS:
            near = difflib.get_close_matches(name, marks.OF_FALLBACKS, 1, 0.85)
            if near:
                told = f"no annotation of {kinds} has this name; did you mean {near[0]}?"
                found.warn(annotations.key(name), told)


def warn_of_start(annotations: FieldCursor, found: Findings) -> None:
    """Warn of an expected time that is none, and of a failure that is not reported."""
    try:
        expected_s = marks.start_s(annotations.texts)
    except InvalidAnnotationError as error:
        found.warn(annotations.key(error.annotation), f"{error}; until then no request waits for a start")
        return
    if expected_s is None and marks.START_FAILED in annotations.texts:
        found.warn(annotations.key(marks.START_FAILED), f"has no effect without {marks.SCALE_FROM_ZERO}")


def warn_of_weights(annotations: FieldCursor, found: Findings) -> None:
    """Warn of weights that are none."""
    try:
        weights.of_pool(annotations.texts)
    except InvalidAnnotationError as error:
        found.warn(annotations.key(error.annotation), f"{error}; until then, it has no effect")


def check_fallbacks(
    annotations: FieldCursor,
    own_names: Collection[str],
    pools: Callable[[str], bool] | None,
    others: View,
    found: Findings,
) -> None:
    """Reject fallbacks that cannot be read or that name one of the object's `own_names`; warn of models and
    pools that do not exist. `pools`: whether there is a pool of this name; None if that is unknown."""
    written = annotations.texts
    names = annotations.key(marks.FALLBACK)
    if marks.FALLBACK not in written:
        for name in marks.OF_FALLBACKS:
            if name in written:
                found.warn(annotations.key(name), f"has no effect without {marks.FALLBACK}")
        return
    try:
        parsed = fallbacks.parse(written)
    except InvalidAnnotationError as error:
        found.invalid(annotations.key(error.annotation), str(error))
        return
    for model, pool, provider in parsed.next if parsed is not None else ():
        if provider:
            continue  # only gateways know theirs
        if model and model in own_names:
            found.invalid(names, f"{model!r} would fall back to itself: name other models only")
        elif model and not any(others.filed(IndexKey(about, (model,))) for about in (MODEL, ADAPTER)):
            found.warn(names, f'no object serves the model "{model}"{others.among}; it is passed over')
        elif pool and pools is not None and not pools(pool):
            found.warn(names, f'there is no pool "{pool}"{others.among}; it is passed over')


def warn_of_grace(annotations: FieldCursor, least: int | None, found: Findings) -> None:
    """Warn of a grace period that is none, or that has no effect with `least` replicas."""
    grace = annotations.key(marks.ZERO_GRACE_PERIOD)
    if grace.text is None:
        return
    if durations.nanoseconds(grace) is None:
        found.warn(grace, f'"{grace.text[:64]}" is no duration, such as 5m: until then one replica stays')
    elif least:
        found.warn(grace, "has no effect unless minReplicas is 0")


def warn_of_tls(annotations: FieldCursor, *, is_https: bool, needed: str, found: Findings) -> None:
    """`needed` is the setting that makes endpoints of the kind use https."""
    written = [name for name in ANNOTATIONS if name in annotations.texts]
    if not written:
        return
    if not is_https:
        for name in written:
            found.warn(annotations.key(name), f"has no effect without {needed}")
        return
    try:
        asked = EndpointTls.parse(annotations.texts)
    except InvalidAnnotationError as error:
        found.warn(annotations.key(error.annotation), f"{error}; until then no Pod gets requests")
        return
    if asked.insecure:
        told = "anyone who takes the address of a Pod can read and answer its requests"
        found.warn(annotations.key(marks.TLS_INSECURE), told)
