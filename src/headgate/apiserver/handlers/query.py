"""Query parameters: each is validated before use, with Kubernetes' error messages."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request

from headgate.apiserver import errors, selectors, tables
from headgate.apiserver.deletion import DeleteOptions
from headgate.apiserver.handlers import bodies
from headgate.apiserver.registry import Served
from headgate.apiserver.selectors import Selector
from headgate.apiserver.targets import FieldValidation, WriteOptions
from headgate.kubeschema.structural import FieldError

MAX_MANAGER_BYTES = 128
_META = "meta.k8s.io"
_MATCHES = ("Exact", "NotOlderThan")
_POLICIES = ("Foreground", "Background", "Orphan")
_VALIDATIONS = ("Ignore", "Warn", "Strict")


@dataclass(frozen=True)
class ListOptions:
    """Options of a list or watch."""

    limit: int
    continue_: str
    revision: int | None
    """The resourceVersion, if given."""
    exact: bool
    """Exactly the state at this revision; otherwise, any that is not older."""
    initial_events: bool | None
    """Whether a watch begins with the existing objects; None if not specified."""
    bookmarks: bool
    timeout_s: int


def flag(request: Request, name: str) -> bool:
    """Whether a parameter is on. As in Kubernetes, any value except false and 0 means on, including none."""
    return _is_on(request.query_params.get(name))


def _is_on(value: str | None) -> bool:
    return value is not None and value.lower() not in ("false", "0")


def integer(request: Request, name: str) -> int:
    text = request.query_params.get(name) or "0"
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise errors.bad_request(f'{name}: Invalid value: "{text}": must be a number, 0 or more')
    return int(text)


def revision(request: Request) -> int | None:
    """The resourceVersion of a read."""
    text = request.query_params.get("resourceVersion")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise errors.bad_request(f'resourceVersion: Invalid value: "{text}": must be a number, 0 or more')
    return int(text)


def list_options(request: Request, *, watch: bool) -> ListOptions:
    """The options of a list or watch; 422 with all invalid combinations."""
    query = request.query_params
    initial = flag(request, "sendInitialEvents") if query.get("sendInitialEvents") else None
    version, match, token = (
        revision(request),
        query.get("resourceVersionMatch", ""),
        query.get("continue", ""),
    )
    found = [*_match_errors(version, match, token, initial, watch=watch)]
    if found:
        raise errors.invalid(_META, "ListOptions", "", found)
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
    """The errors of apimachinery's ListOptions validation for resourceVersionMatch and sendInitialEvents."""
    name = "resourceVersionMatch"
    found = []
    if initial is not None and not watch:
        found.append(_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    elif initial is not None and match != "NotOlderThan":
        found.append(
            _forbidden(name, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        )
    if not match:
        return found
    if watch and initial is None:
        found.append(_forbidden(name, f"{name} is forbidden for watch unless sendInitialEvents is provided"))
    if not watch and version is None:
        found.append(_forbidden(name, f"{name} is forbidden unless resourceVersion is provided"))
    if token:
        found.append(_forbidden(name, f"{name} is forbidden when continue is provided"))
    if match not in _MATCHES:
        found.append(_unsupported(name, match, (*_MATCHES, "")))
    if match == "Exact" and version == 0:
        found.append(_forbidden(name, f'{name} "exact" is forbidden for resourceVersion "0"'))
    return found


def selector(request: Request, served: Served) -> Selector:
    query = request.query_params
    return selectors.parse(
        query.get("labelSelector"), query.get("fieldSelector"), selectors.selectable_fields(served)
    )


def include(request: Request) -> tables.IncludeObject:
    """What a row of a Table contains besides its cells."""
    if not request.scope["query_string"]:
        return "Metadata"
    value = request.query_params.get("includeObject") or "Metadata"
    if value not in ("None", "Metadata", "Object"):
        told = (
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{value}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
        raise errors.bad_request(told)
    return cast(tables.IncludeObject, value)


def write_options(request: Request, kind: str, *, apply: bool | None = None) -> WriteOptions:
    """The options of a write; `kind` is CreateOptions, UpdateOptions or PatchOptions; 422 with all errors.

    `apply` is given for patches only: whether it is a server-side apply.
    """
    asked, agent = request.scope["query_string"], request.headers.get("user-agent", "unknown")
    make = _write_options if len(asked) + len(agent) > _SHORT else _known_write_options
    return make(asked, agent, kind, apply)


def _write_options(asked: bytes, agent: str, kind: str, apply: bool | None) -> WriteOptions:
    query = QueryParams(asked)
    validation = query.get("fieldValidation") or "Warn"
    manager = query.get("fieldManager", "")
    dry_run = query.getlist("dryRun")
    found = [*_dry_run_errors(dry_run), *_manager_errors(manager)]
    if validation not in _VALIDATIONS:
        found.append(_unsupported("fieldValidation", validation, ("", *sorted(_VALIDATIONS))))
    if apply and not manager:
        found.append(FieldError("FieldValueRequired", "fieldManager", "is required for apply patch"))
    if apply is False and query.get("force"):
        found.append(_forbidden("force", "may not be specified for non-apply patch"))
    if found:
        raise errors.invalid(_META, kind, "", found)
    agent = agent.partition("/")[0]
    return WriteOptions(
        dry_run="All" in dry_run,
        field_manager=manager or "".join(filter(str.isprintable, agent))[:MAX_MANAGER_BYTES],
        field_validation=cast(FieldValidation, validation),
        force=_is_on(query.get("force")),
    )


_SHORT = 512
_known_write_options = functools.lru_cache(maxsize=256)(_write_options)
"""Cached, because a client sends the same options with every write."""


async def delete_options(request: Request) -> DeleteOptions:
    """From the body and the query, which takes precedence; 422 with all errors."""
    sent: dict[str, Any] = await bodies.read_question(request)
    query = request.query_params
    if "gracePeriodSeconds" in query:
        sent["gracePeriodSeconds"] = integer(request, "gracePeriodSeconds")
    if policy := query.get("propagationPolicy"):
        sent["propagationPolicy"] = policy
    if dry_run := query.getlist("dryRun"):
        sent["dryRun"] = [each for each in dry_run if each]
    found: list[FieldError] = []
    if isinstance(wanted := sent.get("propagationPolicy"), str) and wanted not in _POLICIES:
        found.append(_unsupported("propagationPolicy", wanted, (*_POLICIES, "nil")))
    if isinstance(runs := sent.get("dryRun"), list):
        found += _dry_run_errors(runs)
    if found:
        raise errors.invalid(_META, "DeleteOptions", "", found)
    options = msgspec.convert(sent, DeleteOptions)
    if options.orphan_dependents is not None and options.propagation_policy is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        clash = FieldError("FieldValueInvalid", "propagationPolicy", detail, options.propagation_policy)
        raise errors.invalid(_META, "DeleteOptions", "", [clash])
    return options


def _dry_run_errors(values: list[str]) -> list[FieldError]:
    wrong = any(value not in ("", "All") for value in values)
    return [_unsupported("dryRun", values, ("All",))] if wrong else []


def _manager_errors(manager: str) -> list[FieldError]:
    found = []
    if len(manager.encode()) > MAX_MANAGER_BYTES:
        detail = f"may not be more than {MAX_MANAGER_BYTES} bytes"
        found.append(FieldError("FieldValueTooLong", "fieldManager", detail, ""))
    if not manager.isprintable():
        detail = "should only contain printable characters"
        found.append(FieldError("FieldValueInvalid", "fieldManager", detail, manager))
    return found


def _unsupported(field: str, value: object, supported: tuple[str, ...]) -> FieldError:
    listed = ", ".join(f'"{name}"' for name in supported)
    return FieldError("FieldValueNotSupported", field, f"supported values: {listed}", value)


def _forbidden(field: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", field, detail, None)
