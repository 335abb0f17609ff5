"""Filters change headers and paths as the Gateway API says, and those that are not supported are told."""

from __future__ import annotations

import msgspec
import pytest

from headgate.api import http_routes
from headgate.routing.gateway_api import filters
from headgate.routing.gateway_api.matches import UnsupportedError


def compiled(*given: dict[str, object]) -> filters.Filters:
    return filters.compiled(msgspec.convert(list(given), list[http_routes.Filter]))


def headers(**change: object) -> filters.HeaderChange:
    made = compiled({"type": "RequestHeaderModifier", "requestHeaderModifier": change}).request
    assert made is not None
    return made


def test_headers_are_removed_replaced_and_added() -> None:
    change = headers(
        set=[{"name": "X-Set", "value": "new"}],
        add=[{"name": "X-Add", "value": "two"}],
        remove=["X-Gone"],
    )
    before = [(b"x-set", b"old"), (b"x-add", b"one"), (b"x-gone", b"1"), (b"x-kept", b"1")]
    assert change.apply(before) == [
        *((b"x-add", b"one"), (b"x-kept", b"1")),
        *((b"x-set", b"new"), (b"x-add", b"two")),
    ]


@pytest.mark.parametrize(
    ("path", "prefix", "replacement", "wanted"),
    [
        ("/foo/bar", "/foo", "/xyz", "/xyz/bar"),
        ("/foo/bar", "/foo", "/xyz/", "/xyz/bar"),
        ("/foo/", "/foo", "/xyz", "/xyz/"),
        ("/foo", "/foo", "/xyz", "/xyz"),
        ("/foo/bar", "/foo", "/", "/bar"),
        ("/foo/bar", "/foo", "", "/bar"),
        ("/foo/", "/foo", "/", "/"),
        ("/foo", "/foo", "/", "/"),
        ("/foo", "/foo", "", "/"),
        ("/bar", "", "/xyz", "/xyz/bar"),
        ("/", "", "/xyz", "/xyz/"),
    ],
)
def test_a_prefix_is_replaced_by_elements(path: str, prefix: str, replacement: str, wanted: str) -> None:
    modifier = {"type": "ReplacePrefixMatch", "replacePrefixMatch": replacement}
    made = compiled({"type": "URLRewrite", "urlRewrite": {"path": modifier}}).rewrite
    assert made is not None
    assert made.path is not None
    assert made.path.apply(path, prefix) == wanted


def test_a_whole_path_is_replaced() -> None:
    modifier = {"type": "ReplaceFullPath", "replaceFullPath": "/one"}
    made = compiled({"type": "RequestRedirect", "requestRedirect": {"path": modifier}}).redirect
    assert made is not None
    assert made.path is not None
    assert made.path.apply("/foo/bar", "/foo") == "/one"
    assert made.status == 302


def test_shares_of_mirrors_are_fractions() -> None:
    target = {"backendRef": {"name": "shadow", "port": 80}}
    fraction = {**target, "fraction": {"numerator": 1, "denominator": 3}}
    made = compiled(
        *(
            {"type": "RequestMirror", "requestMirror": each}
            for each in (target, {**target, "percent": 5}, fraction)
        )
    ).mirrors
    assert [(each.backend, each.numerator, each.denominator) for each in made] == [
        (0, 1, 1),
        (1, 5, 100),
        (2, 1, 3),
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"type": "CORS"},
        {"type": "ExtensionRef", "extensionRef": {"group": "x.y", "kind": "Z", "name": "z"}},
        {"type": "URLRewrite"},
        {"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["Content-Length"]}},
        {"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "Host", "value": "a"}]}},
        {
            "type": "ResponseHeaderModifier",
            "responseHeaderModifier": {"add": [{"name": "a", "value": "1\r\nb: 2"}]},
        },
        {"type": "RequestRedirect", "requestRedirect": {"statusCode": 304}},
        {
            "type": "URLRewrite",
            "urlRewrite": {"path": {"type": "ReplaceFullPath", "replaceFullPath": "/a b"}},
        },
    ],
)
def test_what_is_not_supported_is_told(given: dict[str, object]) -> None:
    with pytest.raises(UnsupportedError) as error:
        compiled(given)
    assert error.value.field.startswith("filters")
