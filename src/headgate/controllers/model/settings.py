"""Settings of the controller that show in the objects of every Model."""

from __future__ import annotations

import msgspec

RUNTIME_PORT = 8100


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the objects of Models contain besides the Model's own fields."""

    headgate_image: str = "headgate"
    """Image of downloads and of the sidecar."""
