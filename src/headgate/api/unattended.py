"""Kinds that are stored and validated, but not acted on yet, with the message for their objects."""

from __future__ import annotations

from collections.abc import Mapping

UNATTENDED: Mapping[tuple[str, str], str] = {}
"""By group and kind, for the status of each object and for the warning on a write."""
