"""The error of a request to the sidecar."""

from __future__ import annotations

from collections.abc import Sequence


class ApiError(Exception):
    """Why a request is refused, with the status of the response."""

    def __init__(self, status: int, told: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(told)
        self.status = status
        self.headers = list(headers)
