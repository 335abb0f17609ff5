"""Errors of requests to an API server: one hierarchy, made from Kubernetes Status bodies."""

# ruff: noqa: N818 - the errors have the names of the Status reasons that they represent

from typing import Self

import msgspec


class ConfigurationError(Exception):
    """No connection could be configured: the kubeconfig or the in-cluster account is missing or wrong."""


class StatusCause(msgspec.Struct, frozen=True):
    """One of a server's reasons for a rejection, usually about one field."""

    reason: str = ""
    message: str = ""
    field: str = ""


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: float | None = None


class Status(msgspec.Struct, frozen=True):
    """meta/v1 Status: the body of an error response and the object of an ERROR watch event."""

    kind: str = ""
    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: _Details | None = None


class ApiError(Exception):
    """An API server rejected a request or could not respond.

    `status_code` is the HTTP code (0 without a response), `reason` the Status reason ("NotFound", ...),
    `causes` the single field errors, `request` the method and path.
    """

    def __init__(
        self,
        message: str,
        *,
        status_code: int = 0,
        reason: str = "",
        causes: tuple[StatusCause, ...] = (),
        retry_after_s: float | None = None,
        request: str = "",
    ) -> None:
        super().__init__(f"{request}: {message}" if request else message)
        self.message = message
        self.status_code = status_code
        self.reason = reason
        self.causes = causes
        self.retry_after_s = retry_after_s
        self.request = request

    @classmethod
    def from_status(cls, status: Status, *, status_code: int = 0, request: str = "") -> "ApiError":
        """The most specific error for a Status; the reason takes precedence over the code."""
        code = status.code or status_code
        reason = status.reason or ""
        details = status.details or _Details()
        kind = _BY_REASON.get(reason) or _BY_CODE.get(code, ApiError)
        return kind(
            status.message or reason or f"HTTP {code}",
            status_code=code,
            reason=reason,
            causes=details.causes,
            retry_after_s=details.retry_after_seconds,
            request=request,
        )

    @classmethod
    def from_body(cls, status_code: int, body: bytes, request: str) -> "ApiError":
        """The error for a response; a body that is not a Status (a proxy's page) is quoted in part."""
        try:
            status = msgspec.json.decode(body, type=Status)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            status = Status()
        if status.kind != "Status":
            text = body[:200].decode("utf-8", "replace").strip()
            status = Status(message=f"HTTP {status_code}: {text}" if text else f"HTTP {status_code}")
        return cls.from_status(status, status_code=status_code, request=request)


class NotFound(ApiError):
    """The object, or its kind, does not exist (404)."""


class Forbidden(ApiError):
    """The account lacks the permission (403)."""


class Conflict(ApiError):
    """The object changed since it was read, or another field manager owns the field (409)."""


class AlreadyExists(ApiError):
    """An object of this name exists (409)."""


class Invalid(ApiError):
    """The object violates its schema or rules; `causes` has one entry for each field (422)."""


class Gone(ApiError):
    """The resource version or continue token is older than the server's history (410): list again."""


class Unreachable(ApiError):
    """No complete response: refused, reset, timed out, credentials not available, or not HTTP."""

    @classmethod
    def because(cls, error: BaseException, request: str) -> Self:
        """An error with this cause. Includes its type, since transport errors often have an empty text."""
        text = str(error)
        name = type(error).__name__
        return cls(f"{name}: {text}" if text else name, reason="Unreachable", request=request)


_BY_REASON: dict[str, type[ApiError]] = {
    "NotFound": NotFound,
    "Forbidden": Forbidden,
    "Conflict": Conflict,
    "AlreadyExists": AlreadyExists,
    "Invalid": Invalid,
    "Gone": Gone,
    "Expired": Gone,
}
_BY_CODE: dict[int, type[ApiError]] = {403: Forbidden, 404: NotFound, 409: Conflict, 410: Gone, 422: Invalid}
