"""Errors in OpenAI's format, including those for bodies that cannot be parsed."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

_TYPES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    405: "MethodNotAllowedError",
    408: "RequestTimeoutError",
    413: "RequestEntityTooLargeError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
}
RETRY_AFTER_S = {429: 1.0}


class ApiError(Exception):
    """A response other than 200; `param` names the invalid field of the body, `kind` is the error type.
    `retry_after_s` sets that header: 0 omits it, None uses the default of the status.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        kind: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        self.status = status
        self.message = message
        self.param = param
        self.kind = kind or _TYPES.get(status, "InternalServerError")
        self.retry_after_s = RETRY_AFTER_S.get(status, 0.0) if retry_after_s is None else retry_after_s
        super().__init__(message)

    def body(self) -> bytes:
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}
        return msgspec.json.encode({"error": error})


STOPPED = ApiError(503, "The engine stopped before the answer was complete")

T = TypeVar("T")


def decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decode a body; raises `ApiError` that names the field."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        missing = re.search(r"missing required field `(\w+)`", message)
        field = (path.rstrip("`") + (f".{missing[1]}" if missing else "")).removeprefix(".")
        raise ApiError(400, f"{field}: {message}" if field else message, param=field or None) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(400, f"The body is not valid JSON: {error}") from error
    except RecursionError as error:
        raise ApiError(400, "The body is nested too deeply") from error


def wrong(field: str, problem: str) -> ApiError:
    """A 400 whose message begins with the field."""
    return ApiError(400, f"{field}: {problem}", param=field)
