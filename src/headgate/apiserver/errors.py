"""Errors of the API server as Kubernetes Statuses; their messages are defined here only."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from headgate.kubeschema.structural import FieldError

INSUFFICIENT_STORAGE = 507
MAX_CAUSES = 100
"""A hostile object may have a million errors; only the first hundred are reported."""


@dataclass(frozen=True)
class Cause:
    """One of several causes of an error."""

    reason: str
    message: str
    field: str = ""

    def to_dict(self) -> dict[str, str]:
        return {key: value for key, value in vars(self).items() if value}


@dataclass
class StatusError(Exception):
    """A rejected request. `code` is the HTTP status, `reason` the machine-readable reason for clients."""

    code: int
    reason: str
    message: str
    name: str = ""
    group: str = ""
    kind: str = ""
    causes: Sequence[Cause] = field(default_factory=tuple)
    retry_after_s: int = 0
    warning: str = ""
    """A warning for the client, besides the error."""
    has_details: bool = False
    """Whether Kubernetes sends details even if they are empty."""
    continue_: str = ""
    """A token for the rest of a list that cannot continue consistently."""

    def __str__(self) -> str:
        return self.message

    def to_dict(self) -> dict[str, Any]:
        details: dict[str, Any] = {
            key: value
            for key, value in (("name", self.name), ("group", self.group), ("kind", self.kind))
            if value
        }
        if self.causes:
            details["causes"] = [cause.to_dict() for cause in self.causes[:MAX_CAUSES]]
        if self.retry_after_s:
            details["retryAfterSeconds"] = self.retry_after_s
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_} if self.continue_ else {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if details or self.has_details:
            status["details"] = details
        return status


def _qualified(plural: str, group: str) -> str:
    return f"{plural}.{group}" if group else plural


def not_found(group: str, plural: str, name: str) -> StatusError:
    return StatusError(
        404,
        "NotFound",
        f'{_qualified(plural, group)} "{name}" not found',
        name=name,
        group=group,
        kind=plural,
    )


def no_such_path() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource", has_details=True)


def already_exists(group: str, plural: str, name: str, *, is_going: bool = False) -> StatusError:
    """`is_going`: the present object is being deleted."""
    prefix = "object is being deleted: " if is_going else ""
    return StatusError(
        409,
        "AlreadyExists",
        f'{prefix}{_qualified(plural, group)} "{name}" already exists',
        name=name,
        group=group,
        kind=plural,
    )


def conflict(group: str, plural: str, name: str, why: str, causes: Sequence[Cause] = ()) -> StatusError:
    message = f'Operation cannot be fulfilled on {_qualified(plural, group)} "{name}": {why}'
    return StatusError(409, "Conflict", message, name=name, group=group, kind=plural, causes=causes)


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> StatusError:
    """All field errors of an object at once, in the order they were found."""
    told = list(dict.fromkeys(error.message() for error in errors))
    listed = told[0] if len(told) == 1 else f"[{', '.join(told[:MAX_CAUSES])}]"
    causes = tuple(Cause(error.reason, error.body(), error.field) for error in errors)
    message = f'{_qualified(kind, group)} "{name}" is invalid: {listed}'
    return StatusError(422, "Invalid", message, name=name, group=group, kind=kind, causes=causes)


def forbidden(group: str, plural: str, name: str, why: str, causes: Sequence[Cause] = ()) -> StatusError:
    what = f'{_qualified(plural, group)} "{name}"' if name else _qualified(plural, group)
    message = f"{what} is forbidden: {why}"
    return StatusError(403, "Forbidden", message, name=name, group=group, kind=plural, causes=causes)


def apply_conflict(conflicts: Sequence[tuple[str, str]]) -> StatusError:
    """Server-side apply conflicts with other managers; `conflicts` are (manager, field) pairs."""
    by_manager: dict[str, list[str]] = {}
    for manager, path in conflicts:
        by_manager.setdefault(manager, []).append(path)
    if len(conflicts) == 1:
        manager, path = conflicts[0]
        told = f"Apply failed with 1 conflict: conflict with {manager}: {path}"
    else:
        lines = [f"conflicts with {m}:\n" + "\n".join(f"- {p}" for p in ps) for m, ps in by_manager.items()]
        told = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    causes = tuple(Cause("FieldManagerConflict", f"conflict with {m}", path) for m, path in conflicts)
    return StatusError(409, "Conflict", told, causes=causes)


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


class StrictDecodingError(StatusError):
    """Unknown or duplicate fields of an object, under strict validation."""

    def __init__(self, kind: str, version: str, complaints: Iterable[str]) -> None:
        what = f'{kind} in version "{version}" cannot be handled as a {kind}'
        self.why = f"strict decoding error: {', '.join(complaints)}"
        super().__init__(400, "BadRequest", f"{what}: {self.why}")

    def of_patch(self, shown: str) -> StatusError:
        """The same for an object resulting from a patch; `shown` is the object or the patch."""
        return invalid("", "", "", [FieldError("FieldValueInvalid", "patch", self.why, shown)])


def strict_decoding_of_apply(complaints: Iterable[str]) -> StatusError:
    """Duplicate fields of an applied object, which Kubernetes parses as YAML."""
    lines = "\n  ".join(["error converting YAML to JSON: yaml: unmarshal errors:", *complaints])
    return bad_request(f"error strict decoding YAML: {lines}")


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> StatusError:
    told = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", told, has_details=True)


def not_supported(verb: str, group: str, plural: str) -> StatusError:
    """A method that subresources of custom kinds do not have."""
    told = f'{verb} is not supported on resources of kind "{_qualified(plural, group)}"'
    return StatusError(405, "MethodNotAllowed", told, group=group, kind=plural)


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    return StatusError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
    )


def not_acceptable(offered: Sequence[str]) -> StatusError:
    told = f"only the following media types are accepted: {', '.join(offered)}"
    return StatusError(406, "NotAcceptable", told)


def too_large(limit_bytes: int, of: str = "") -> StatusError:
    """`of` names what the limit applies to, if not to every request."""
    told = f"Request entity too large: limit is {limit_bytes} bytes{of}"
    return StatusError(413, "RequestEntityTooLarge", told)


def too_many_values(limit: int) -> StatusError:
    told = f"Request entity too large: limit is {limit} fields and items"
    return StatusError(413, "RequestEntityTooLarge", told)


def too_deep(limit: int) -> StatusError:
    return bad_request(f"the object provided is nested too deeply: limit is {limit} levels")


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def too_large_revision(asked: int, current: int) -> StatusError:
    """A client names a resource version that this server has not reached."""
    told = f"Timeout: Too large resource version: {asked}, current: {current}"
    cause = Cause("ResourceVersionTooLarge", "Too large resource version")
    return StatusError(504, "Timeout", told, causes=(cause,), retry_after_s=1)


def too_many_requests(message: str, retry_after_s: int = 1) -> StatusError:
    return StatusError(429, "TooManyRequests", message, retry_after_s=retry_after_s)


def unavailable(message: str) -> StatusError:
    return StatusError(503, "ServiceUnavailable", message, retry_after_s=1)


def insufficient_storage(why: str, *, takes_deletions: bool) -> StatusError:
    """The disk is full, or cannot be written for another reason given by the store."""
    deletions = "still work" if takes_deletions else "may fail too, because their reserve is used up"
    told = f"the API server cannot write ({why}): free space on its disk; deletions {deletions}"
    return StatusError(INSUFFICIENT_STORAGE, "InsufficientStorage", told)


def internal(error: BaseException) -> StatusError:
    return StatusError(500, "InternalError", f"Internal error occurred: {type(error).__name__}: {error}")


DISK_FULL = "database or disk is full"
_DISK_FAILURES = (DISK_FULL, "disk I/O error")
"""SQLite's messages for a write that failed on disk."""


def is_full(error: BaseException) -> bool:
    """Whether a write failed because the disk is full or failing."""
    if isinstance(error, StatusError):
        return error.code == INSUFFICIENT_STORAGE
    told = str(error) if isinstance(error, sqlite3.OperationalError) else ""
    return any(words in told for words in _DISK_FAILURES)


def status_of(error: Exception, *, takes_deletions: bool = True) -> StatusError:
    """The Status for any exception that reaches the HTTP edge.

    `takes_deletions` says whether deletions still have a reserve on a full disk.
    """
    match error:
        case StatusError():
            return error
        case msgspec.DecodeError() | UnicodeDecodeError():
            return bad_request(f"the object provided is unrecognized: {error}")
        case ClientDisconnect():
            return bad_request("the client disconnected amid its request")  # which nobody reads
        case RecursionError():
            return bad_request("the object provided is nested too deeply")
        case HTTPException(status_code=404):
            return no_such_path()
        case HTTPException(status_code=405):
            return method_not_allowed()
        case sqlite3.OperationalError() if is_full(error):
            return insufficient_storage(str(error), takes_deletions=takes_deletions)
        case sqlite3.OperationalError():
            # A failing disk: nothing was acknowledged, and the client may retry.
            return unavailable(f"the store cannot write: {error}")
        case _:
            return internal(error)
