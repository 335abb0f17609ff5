"""Base of the sections: structs whose fields are `Annotated` with `setting` or `derived`."""

from __future__ import annotations

import msgspec

DAY_S = 86_400.0


def setting(
    description: str,
    *,
    live: bool = True,
    ge: float | None = None,
    le: float | None = None,
    flag: str = "",
) -> msgspec.Meta:
    """`live` settings can change while serving; others change at the next start or upgrade. `flag` is a
    shorter name for the flag."""
    return msgspec.Meta(description=description, extra={"live": live, "flag": flag}, ge=ge, le=le)


def derived(description: str) -> msgspec.Meta:
    """A field that is computed from other settings and cannot be set."""
    return msgspec.Meta(description=description, extra={"derived": True})


def port(of: str, *, flag: str = "") -> msgspec.Meta:
    return setting(f"Port of {of}; 0 picks a free one.", live=False, ge=0, le=65_535, flag=flag)


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that belong together."""
