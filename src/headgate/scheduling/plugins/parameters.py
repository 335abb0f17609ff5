"""Types that several plugins' parameters share."""

from __future__ import annotations

from typing import Annotated

import msgspec

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
"""From 0 to 1."""

HeaderName = Annotated[str, msgspec.Meta(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$")]

Producer = Annotated[str, msgspec.Meta(extra={"refers": True})]
"""The name of another plugin of the configuration whose data is used."""


def unused(why: str) -> msgspec.Meta:
    """Marks a setting without effect, and says why."""
    return msgspec.Meta(extra={"unused": why})
