"""The credential that this process sends to the metrics and admin pages of gateways."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "HEADGATE_ADMIN_TOKEN"
FILE_VARIABLE = "HEADGATE_ADMIN_TOKEN_FILE"
"""Its content goes before the other variable; it is read again for each connection."""


def headers() -> dict[str, str]:
    """For a request; empty if no credential is set. Raises OSError if the file cannot be read."""
    file = os.environ.get(FILE_VARIABLE)
    token = Path(file).read_text().strip() if file else os.environ.get(VARIABLE, "").strip()
    return {"authorization": f"Bearer {token}"} if token else {}


def hint(status: int) -> str:
    """What to do about a response, for messages."""
    if status not in (401, 403):
        return ""
    return f"; set {VARIABLE} to a key made with `headgate key create NAME --admin`, or {FILE_VARIABLE}"
