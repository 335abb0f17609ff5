"""What parameters of plugins are made of: types that several of them share."""

from __future__ import annotations

from typing import Annotated

import msgspec

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
"""From 0 to 1."""

HeaderName = Annotated[str, msgspec.Meta(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$")]

Producer = Annotated[str, msgspec.Meta(extra={"refers": True})]
"""The name of another plugin of the configuration, whose data is meant."""


def unused(why: str) -> msgspec.Meta:
    """Marks what a configuration may say without effect, and why."""
    return msgspec.Meta(extra={"unused": why})
