"""Removes from a response what differs between any two servers: ids, versions, times, chosen names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from asking import Response
from stories import Request

HEADERS = ("content-type", "warning", "retry-after", "location", "www-authenticate", "allow", "cache-control")
"""The headers that clients rely on."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z")
_VERSION = re.compile(r"(current: |in record \()\d+")
_SERVERS = ("kube-apiserver", "headgate")
"""Managers of what the server itself has made."""
_AGE = re.compile(r"\d+[smhd]")
"""In a Table."""
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Normal:
    """The responses of one server to one story. Ids and versions are numbered as they are first seen."""

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix
        self._uids: dict[str, str] = {}
        self._versions: dict[str, str] = {}

    def response(self, request: Request, response: Response) -> dict[str, Any]:
        """A value that can be compared."""
        headers = {name: response.headers.get(name) for name in HEADERS if name in response.headers}
        body = _picked(response.body, request.only)
        body = self._value(_unmarked(body))
        for path, key in request.by.items():
            body = _by_key(body, path.split("."), key)
        headers = self._value(headers)
        headers["warning"] = dict.fromkeys(headers.get("warning", ()), True)
        return {"code": response.code, "headers": headers, "body": _without_order(body)}

    def _value(self, value: Any, key: str = "", is_list: bool = False) -> Any:
        match value:
            case dict():
                holds_many = "items" in value or "rows" in value
                return {
                    self._text(name): self._value(
                        value[name], name, is_list if key == "metadata" else holds_many
                    )
                    for name in sorted(value)
                }
            case list() if key == "managedFields":
                return sorted((self._value(each) for each in value), key=_owner)
            case list():
                return [self._value(inner, key) for inner in value]
            case str() if key == "resourceVersion":
                return self._version(value, is_list)
            case str() if key == "continue":
                return "<token>" if value else value
            case str() if value in _SERVERS:
                return "<server>"
            case str():
                return self._text(value)
        return value

    def _version(self, value: str, is_list: bool) -> str:
        if is_list or not value.isdigit():
            return "<version>" if value else value
        return self._versions.setdefault(value, f"<version {len(self._versions) + 1}>")

    def _text(self, text: str) -> str:
        text = text.replace(self._suffix, "N")
        if _TIME.fullmatch(text):
            return "<microtime>" if "." in text else "<time>"
        if _AGE.fullmatch(text):
            return "<age>"
        text = _UID.sub(lambda found: self._uids.setdefault(found[0], f"<uid {len(self._uids) + 1}>"), text)
        return _VERSION.sub(r"\1<version>", _TIME.sub("<time>", text))


def _owner(entry: dict[str, str]) -> tuple[str, ...]:
    """Servers order the entries by their times as well, which may differ by a second."""
    return tuple(entry.get(name, "") for name in ("operation", "manager", "apiVersion", "subresource"))


def _unmarked(body: Any) -> Any:
    """Events without the versions of bookmarks, which are those of the whole server."""
    if not isinstance(body, list):
        return body
    return [_unversioned(event) if _is_bookmark(event) else event for event in body]


def _is_bookmark(event: Any) -> bool:
    return isinstance(event, dict) and event.get("type") == "BOOKMARK"


def _unversioned(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: inner for name, inner in value.items() if name != "resourceVersion"}
        return {name: _unversioned(inner) for name, inner in kept.items()}
    return [_unversioned(each) for each in value] if isinstance(value, list) else value


def _picked(body: Any, only: Sequence[str]) -> Any:
    if not only or not isinstance(body, dict):
        return body
    made: dict[str, Any] = {}
    for path in only:
        found: Any = body
        for step in path.split("/"):
            found = found.get(step) if isinstance(found, dict) else None
        made[path] = found
    return made


def _by_key(body: Any, steps: list[str], key: str) -> Any:
    if not steps:
        if not isinstance(body, list):
            return body
        made: dict[str, Any] = {}
        for item in body:
            found = item
            for step in key.split("."):
                found = found.get(step) if isinstance(found, dict) else found
            made[str(found)] = item
        return made
    if steps[0] == "*" and isinstance(body, list):
        return [_by_key(item, steps[1:], key) for item in body]
    if steps[0] == "*" and isinstance(body, dict):
        return {name: _by_key(item, steps[1:], key) for name, item in body.items()}
    if isinstance(body, dict) and steps[0] in body:
        return body | {steps[0]: _by_key(body[steps[0]], steps[1:], key)}
    return body


def _without_order(body: Any) -> Any:
    """Kubernetes reports several errors in any order: they are sorted, and left out of the message."""
    if not (isinstance(body, dict) and body.get("kind") == "Status"):
        return body
    details: Mapping[str, Any] = body.get("details") or {}
    causes = details.get("causes") or []
    if len(causes) < 2:
        return body
    causes = sorted(causes, key=lambda cause: (cause.get("field", ""), cause.get("message", "")))
    message = re.sub(r"is invalid: \[.*\]$", "is invalid: [the causes]", body["message"], flags=re.S)
    return body | {"message": message, "details": {**details, "causes": causes}}
