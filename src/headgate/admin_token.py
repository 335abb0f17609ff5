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
    return of_file(Path(file)) if file else _headers(os.environ.get(VARIABLE, "").strip())


def of_file(file: Path) -> dict[str, str]:
    """The same with the token in a file. Raises OSError."""
    return _headers(file.read_text().strip())


def _headers(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"} if token else {}


def hint(status: int, default_url: str) -> str:
    """What to do about a response other than 200, for messages. `default_url`: of the page, by default."""
    if status in (401, 403):
        return f"Set {VARIABLE} to a key made with `headgate key create NAME --admin`, or {FILE_VARIABLE}."
    return f"Is it the admin port of a gateway? By default that is {default_url}."
