"""The models, pools or providers that take over the requests of a route or pool, as annotations say it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from headgate.api.marks import (
    FALLBACK,
    FALLBACK_AFTER,
    FALLBACK_FIRST_TOKEN,
    FALLBACK_ON,
    InvalidAnnotationError,
)

NO_ENDPOINT: Final = "no-endpoint"
SATURATED: Final = "saturated"
ERROR: Final = "error"
SLO: Final = "slo"
LIMIT: Final = "limit"
REASONS: Final = (NO_ENDPOINT, SATURATED, ERROR, SLO, LIMIT)
USUAL: Final = frozenset({NO_ENDPOINT, SATURATED, ERROR})
"""The reasons without the annotation for them."""
USUAL_AFTER_S: Final = 5.0
MAX_NEXT: Final = 8
"""Next models, pools and providers; a request is sent to at most one pool more."""
MAX_NAME_CHARACTERS: Final = 256
MAX_SECONDS: Final = 3600.0

_POOL, _PROVIDER = "pool=", "provider="
_SECONDS = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)(ms|s|m)")
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0}
_STATUS = re.compile(r"[45][0-9]{2}")
_POOL_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_PROVIDER_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Named(NamedTuple):
    """One entry: a model, a pool, or an external provider, perhaps with one of its models."""

    model: str = ""
    pool: str = ""
    """In the namespace of the object."""
    provider: str = ""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The annotations of one object."""

    next: tuple[Named, ...]
    """In order."""
    reasons: frozenset[str]
    statuses: frozenset[int]
    """Statuses that count as a reason besides those of `error`."""
    after_s: float
    """How long a request waits in a queue before it goes to the next."""
    first_token_s: float | None
    """With the reason `slo`: the first token is due within this time."""


def parse(annotations: Mapping[str, str]) -> Written | None:
    """None without the annotation. Raises InvalidAnnotationError, which says what to write."""
    given = annotations.get(FALLBACK)
    if given is None:
        return None
    first_token_s = _seconds(annotations, FALLBACK_FIRST_TOKEN)
    reasons, statuses = _reasons(annotations.get(FALLBACK_ON), with_slo=first_token_s is not None)
    if SLO in reasons and first_token_s is None:
        told = f"{SLO!r} needs the time for the first token: set {FALLBACK_FIRST_TOKEN}, such as 2s"
        raise InvalidAnnotationError(FALLBACK_ON, told)
    after_s = _seconds(annotations, FALLBACK_AFTER)
    return Written(
        next=_next(given),
        reasons=reasons,
        statuses=statuses,
        after_s=USUAL_AFTER_S if after_s is None else after_s,
        first_token_s=first_token_s,
    )


def _next(given: str) -> tuple[Named, ...]:
    entries = [entry.strip() for entry in given.split(",")]
    if len(entries) > MAX_NEXT:
        raise InvalidAnnotationError(FALLBACK, f"names {len(entries)}, and at most {MAX_NEXT} are allowed")
    found = []
    for entry in entries:
        named = _named(entry) if len(entry) <= MAX_NAME_CHARACTERS else None
        if named is None:
            told = (
                f"{entry[:64]!r} is not the name of a model, nor pool=NAME, nor provider=NAME or "
                "provider=NAME/MODEL; separate them by commas"
            )
            raise InvalidAnnotationError(FALLBACK, told)
        found.append(named)
    if len(set(found)) < len(found):
        twice = next(entry for entry in entries if entries.count(entry) > 1)
        raise InvalidAnnotationError(FALLBACK, f"names {twice[:64]!r} twice: name each once")
    return tuple(found)


def _named(entry: str) -> Named | None:
    if entry.startswith(_POOL):
        pool = entry.removeprefix(_POOL)
        return Named(pool=pool) if _POOL_NAME.fullmatch(pool) else None
    if entry.startswith(_PROVIDER):
        name, slash, model = entry.removeprefix(_PROVIDER).partition("/")
        is_whole = is_provider_name(name) and bool(model) == bool(slash)
        return Named(model=model, provider=name) if is_whole else None
    return Named(model=entry) if entry else None


def is_provider_name(text: str) -> bool:
    """Whether an external provider may have this name."""
    return _PROVIDER_NAME.fullmatch(text) is not None


def _reasons(given: str | None, *, with_slo: bool) -> tuple[frozenset[str], frozenset[int]]:
    if given is None:
        return (USUAL | {SLO} if with_slo else USUAL), frozenset()
    words = {word.strip() for word in given.split(",")}
    statuses = {word for word in words if _STATUS.fullmatch(word)}
    if wrong := sorted(words - statuses - set(REASONS)):
        shown = [word[:64] for word in wrong[:MAX_NEXT]]
        near = [each for word in shown for each in difflib.get_close_matches(word, REASONS, 1, 0.7)]
        are = "is" if len(wrong) == 1 else "are"
        told = f"{', '.join(map(repr, shown))} {are} none of {', '.join(REASONS)}, "
        told += "and no status from 400 to 599" + (f"; did you mean {', '.join(near)}?" if near else "")
        raise InvalidAnnotationError(FALLBACK_ON, told)
    return frozenset(words - statuses), frozenset(map(int, statuses))


def _seconds(annotations: Mapping[str, str], name: str) -> float | None:
    given = annotations.get(name)
    if given is None:
        return None
    found = _SECONDS.fullmatch(given)
    seconds = float(found[1]) * _UNITS_S[found[2]] if found else -1.0
    if not 0 <= seconds <= MAX_SECONDS:
        told = f"{given[:64]!r} is not a time from 0s to {MAX_SECONDS:.0f}s, such as 500ms, 5s or 2m"
        raise InvalidAnnotationError(name, told)
    return seconds
