"""The query of a request: each parameter is checked before it is used, in Kubernetes' words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import msgspec
from starlette.requests import Request

from headgate.api.structural import FieldError
from headgate.apiserver import errors, fields, selectors, tables
from headgate.apiserver.deletion import DeleteOptions
from headgate.apiserver.handlers import bodies
from headgate.apiserver.registry import Served
from headgate.apiserver.selectors import Selector
from headgate.apiserver.targets import FieldValidation, WriteOptions

_MATCHES = ("Exact", "NotOlderThan")


@dataclass(frozen=True)
class ListOptions:
    """How a list or a watch is wanted."""

    limit: int
    continue_: str
    revision: int | None
    """The resourceVersion, if one is given."""
    exact: bool
    """The state at this revision and no other; else one that is not older."""
    initial_events: bool | None
    """Whether a watch begins with what there is; None if nothing is said."""
    bookmarks: bool
    timeout_s: int


def flag(request: Request, name: str) -> bool:
    return request.query_params.get(name, "").lower() in ("true", "1")


def integer(request: Request, name: str) -> int:
    text = request.query_params.get(name) or "0"
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise errors.bad_request(f"{name}: Invalid value: {text!r}: must be a number")
    return int(text)


def revision(request: Request) -> int | None:
    """The resourceVersion that a read names."""
    text = request.query_params.get("resourceVersion")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise errors.bad_request(f"resourceVersion: Invalid value: {text!r}: must be a number")
    return int(text)


def list_options(request: Request, *, watch: bool) -> ListOptions:
    """The options of a list or watch; 422 with all that do not go together."""
    query = request.query_params
    initial = flag(request, "sendInitialEvents") if query.get("sendInitialEvents") else None
    version, match, token = (
        revision(request),
        query.get("resourceVersionMatch", ""),
        query.get("continue", ""),
    )
    found = [*_match_errors(version, match, token, initial, watch=watch)]
    if found:
        raise errors.invalid("meta.k8s.io", "ListOptions", "", found)
    if token and version:
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    return ListOptions(
        limit=integer(request, "limit"),
        continue_=token,
        revision=version,
        exact=match == "Exact",
        initial_events=initial,
        bookmarks=flag(request, "allowWatchBookmarks"),
        timeout_s=integer(request, "timeoutSeconds"),
    )


def _match_errors(
    version: int | None, match: str, token: str, initial: bool | None, *, watch: bool
) -> list[FieldError]:
    """What apimachinery's validation of ListOptions says about resourceVersionMatch and sendInitialEvents."""

    def forbidden(field: str, detail: str) -> FieldError:
        return FieldError("FieldValueForbidden", field, detail, None)

    name = "resourceVersionMatch"
    found = []
    if initial is not None and not watch:
        found.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    elif initial is not None and match != "NotOlderThan":
        found.append(
            forbidden(name, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        )
    if not match:
        return found
    if watch and initial is None:
        found.append(forbidden(name, f"{name} is forbidden for watch unless sendInitialEvents is provided"))
    if not watch and version is None:
        found.append(forbidden(name, f"{name} is forbidden unless resourceVersion is provided"))
    if token:
        found.append(forbidden(name, f"{name} is forbidden when continue is provided"))
    if match not in _MATCHES:
        detail = 'supported values: "Exact", "NotOlderThan"'
        found.append(FieldError("FieldValueNotSupported", name, detail, match))
    if match == "Exact" and version == 0:
        found.append(forbidden(name, f'{name} "exact" is forbidden for resourceVersion "0"'))
    return found


def selector(request: Request, served: Served) -> Selector:
    query = request.query_params
    return selectors.parse(query.get("labelSelector"), query.get("fieldSelector"), fields.of(served))


def include(request: Request) -> tables.IncludeObject:
    """What a row of a Table carries besides its cells."""
    value = request.query_params.get("includeObject") or "Metadata"
    if value not in ("None", "Metadata", "Object"):
        raise errors.bad_request(f"includeObject: Unsupported value: {value!r}: None, Metadata or Object")
    return cast(tables.IncludeObject, value)


def write_options(request: Request) -> WriteOptions:
    query = request.query_params
    validation = query.get("fieldValidation") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        raise errors.bad_request(
            f"fieldValidation: Unsupported value: {validation!r}: Ignore, Warn or Strict"
        )
    manager = query.get("fieldManager") or request.headers.get("user-agent", "unknown").partition("/")[0]
    if len(manager) > 128 or not manager.isprintable():
        raise errors.bad_request("fieldManager: Invalid value: must be at most 128 printable characters")
    return WriteOptions(
        dry_run=_dry_run(query.getlist("dryRun")),
        field_manager=manager,
        field_validation=cast(FieldValidation, validation),
        force=flag(request, "force"),
    )


async def delete_options(request: Request) -> DeleteOptions:
    """From the body, and from the query, which goes before it."""
    body = await bodies.read(request)
    options = DeleteOptions()
    if body:
        sent, _ = bodies.decode_object(body, bodies.media_type(request))
        options = msgspec.convert(sent, DeleteOptions)
    query = request.query_params
    from_query: dict[str, Any] = {}
    if "gracePeriodSeconds" in query:
        from_query["grace_period_seconds"] = integer(request, "gracePeriodSeconds")
    if policy := query.get("propagationPolicy"):
        if policy not in ("Orphan", "Background", "Foreground"):
            raise errors.bad_request(f"propagationPolicy: Unsupported value: {policy!r}")
        from_query["propagation_policy"] = policy
    if _dry_run(query.getlist("dryRun")):
        from_query["dry_run"] = ["All"]
    return msgspec.structs.replace(options, **from_query)


def _dry_run(values: list[str]) -> bool:
    if any(value not in ("", "All") for value in values):
        raise errors.bad_request(f"dryRun: Unsupported value: {values}: supported values: All")
    return "All" in values
