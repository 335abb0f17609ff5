"""Stories: requests that are sent one after another, read from the files of stories/.

A file has a list of stories. A story has a `story` (its name), `requests` by name, and perhaps `for`,
the name of a list in kinds.yaml: then it is told for each kind. A request is `METHOD PATH`, or a map:

    ask         METHOD PATH
    body        a value, sent as JSON
    object      the example of the kind with these fields changed: a map from dotted path to value
    text        a body as it is sent
    fill        a body of this many bytes
    type        the Content-Type; JSON if absent and there is a body
    accept      the Accept header
    headers     other headers
    as          admin (the default), reader, stranger (has no rights), nobody (no token), wrong (token)
    events      read this many lines of a watch, then close it
    until       repeat the request until this status, as long as WAIT_S
    keep        values of the response for later requests: a map from name to dotted path
    by          lists that are compared by a key of their items: a map from dotted path to key
    only        dotted paths of the body that are compared; all if absent

`$name` in any text is a variable: ns (the story's namespace), n (of this comparison), what was kept, and for
a story that is told for kinds: kind, apiVersion, group, plural, name, other (another name), and the paths
collection, object and everywhere.
"""

from __future__ import annotations

import copy
import json
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
ABSENT = "$absent"
"""As the value of a changed field: the field is removed."""


@dataclass(frozen=True)
class Request:
    """One request of a story, with variables that are not filled in yet."""

    name: str
    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    user: str = "admin"
    events: int = 0
    until: int = 0
    keep: Mapping[str, str] = field(default_factory=dict)
    by: Mapping[str, str] = field(default_factory=dict)
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class Story:
    """Requests in their order; each story has a namespace of its own."""

    name: str
    requests: tuple[Request, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[Request, ...] = ()
    """Sent before, and not compared."""


def files() -> dict[str, list[Story]]:
    """The stories of each file."""
    kinds = _read(HERE / "kinds.yaml")
    return {
        file.stem: [story for told in _read(file) for story in _told(told, kinds)]
        for file in sorted((HERE / "stories").glob("*.yaml"))
    }


def _read(file: Path) -> Any:
    return yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)


def _told(told: dict[str, Any], kinds: dict[str, list[dict[str, Any]]]) -> Iterator[Story]:
    if "for" not in told:
        yield _story(told, None)
        return
    for kind in kinds[told["for"]]:
        yield _story(told, kind)


def _story(told: dict[str, Any], kind: dict[str, Any] | None) -> Story:
    requests = tuple(request(name, asked, kind) for name, asked in told["requests"].items())
    if kind is None:
        return Story(told["story"], requests)
    label = kind["plural"] + ("." + kind["group"] if kind.get("group") else "")
    if kind.get("label"):
        label = kind["label"]
    return Story(f"{told['story']}: {label}", requests, variables(kind), tuple(_needs(kind)))


def _needs(kind: dict[str, Any]) -> Iterator[Request]:
    """Creates the objects without which the kind's example is rejected."""
    for needed in kind.get("needs", ()):
        where = variables({"plural": needed["path"], "example": needed["object"]})["collection"]
        yield request("needed", {"ask": f"POST {where}", "body": needed["object"]}, None)


def variables(kind: dict[str, Any]) -> dict[str, str]:
    """What a story for a kind may name."""
    example, plural = kind["example"], kind["plural"]
    api_version = example["apiVersion"]
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    collection = f"{root}/namespaces/$ns/{plural}" if kind.get("namespaced", True) else f"{root}/{plural}"
    name = example["metadata"]["name"]
    return {
        "kind": example["kind"],
        "apiVersion": api_version,
        "group": api_version.rpartition("/")[0],
        "plural": plural,
        "name": name,
        "collection": collection,
        "object": f"{collection}/{name}",
        "everywhere": f"{root}/{plural}",
        "other": "another" if kind.get("namespaced", True) else "another-$n",
    }


def request(name: str, asked: str | dict[str, Any], kind: dict[str, Any] | None) -> Request:
    """A request as it is written in a file."""
    told = {"ask": asked} if isinstance(asked, str) else dict(asked)
    method, path = told.pop("ask").split(" ", 1)
    headers = dict(told.pop("headers", {}))
    body = _body(told, kind)
    media = told.pop("type", "application/json" if body is not None else None)
    for header, value in (("Content-Type", media), ("Accept", told.pop("accept", None))):
        if value:
            headers[header] = value
    told["user"] = told.pop("as", "admin")
    told["only"] = tuple(told.get("only", ()))
    return Request(name, method, path, headers, body, **told)


def _body(told: dict[str, Any], kind: dict[str, Any] | None) -> str | None:
    if "body" in told:
        return json.dumps(told.pop("body"))
    if "object" in told:
        assert kind is not None, "only a story for kinds has an example"
        return json.dumps(changed(kind["example"], told.pop("object") or {}))
    if "fill" in told:
        return json.dumps({"filling": "x" * told.pop("fill")})
    return told.pop("text", None)


def changed(example: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of an object with other values at dotted paths."""
    made: dict[str, Any] = copy.deepcopy(example)
    for path, value in changes.items():
        *above, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        parent: Any = made
        for step in above:
            parent = parent[step] if isinstance(step, int) else parent.setdefault(step, {})
        if value == ABSENT:
            del parent[last]
        else:
            parent[last] = value
    return made


def filled(text: str, values: Mapping[str, str]) -> str:
    """A text with the variables that are known; twice, because variables may have others in them."""
    if "$" not in text:
        return text
    once = string.Template(text).safe_substitute(values)
    return string.Template(once).safe_substitute(values)
