"""Of several matches that fit a request, the precedence of the Gateway API decides."""

from __future__ import annotations

import pytest
from gateway_objects import Head, gateway, leads_to, route, translate
from hypothesis import given
from hypothesis import strategies as st

PREFIX, EXACT, REGEX = "PathPrefix", "Exact", "RegularExpression"


def match(value: str = "/", type_: str = PREFIX, **rest: object) -> dict[str, object]:
    return {"path": {"type": type_, "value": value}, **rest}


def rule(name: str, *matches: dict[str, object]) -> dict[str, object]:
    return {"name": name, "matches": list(matches)}


def named(name: str, each: dict[str, object], **metadata: str):
    return route(name, rule("x", each), **metadata)


def taker(head: Head, *routes: object, host: str = "any.example") -> str | None:
    found = leads_to(translate(gateway(), *routes), host, head)
    return found.removeprefix("HTTPRoute/shop/").removesuffix(" x") if found is not None else None


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/foo", "exact"),
        ("/foo/", "prefix"),
        ("/foo/bar", "long"),
        ("/foo/bar/x", "long"),
        ("/foo/barx", "prefix"),
        ("/foox", "root"),
        ("/", "root"),
    ],
)
def test_exact_paths_come_first_and_then_the_longest_prefix(path: str, wanted: str) -> None:
    routes = [
        named("root", match("/")),
        named("prefix", match("/foo")),
        named("long", match("/foo/bar/")),
        named("exact", match("/foo", EXACT)),
    ]
    assert taker(Head(path), *routes) == wanted


def test_a_method_comes_before_headers_and_these_before_query_parameters() -> None:
    one, two = ({"name": name, "value": "1"} for name in ("One", "two"))
    method = named("method", match(method="GET"))
    headers = named("headers", match(headers=[one, two]))
    header = named("header", match(headers=[one]))
    query = named("query", match(queryParams=[one, two]))
    head = Head("/?One=1&two=1", one="1", two="1")
    assert taker(head, query, header, headers, method) == "method"
    assert taker(head, query, header, headers) == "headers"
    assert taker(head, query, header) == "header"
    assert taker(head, query) == "query"
    assert taker(Head("/?One=2"), query, header, headers) is None


def test_of_equal_matches_the_oldest_and_then_the_first_name_takes_it() -> None:
    old = named("z", match(), creationTimestamp="2026-01-01T00:00:00Z")
    new = named("a", match(), creationTimestamp="2026-01-02T00:00:00Z")
    same = named("b", match(), creationTimestamp="2026-01-02T00:00:00Z")
    assert taker(Head(), new, same, old) == "z"
    assert taker(Head(), same, new) == "a"


def test_within_a_route_the_first_rule_takes_it() -> None:
    both = route("r", rule("first", match("/a")), rule("second", match("/a")))
    assert leads_to(translate(gateway(), both), "h", Head("/a")) == "HTTPRoute/shop/r first"


def test_the_host_comes_before_the_path() -> None:
    exact = route("exact", rule("x", match("/")), hosts=["a.example.com"])
    wild = route("wild", rule("x", match("/long/path", EXACT)), hosts=["*.example.com"])
    free = route("free", rule("x", match("/long/path", EXACT)))
    routes = [free, wild, exact]
    assert taker(Head("/long/path"), *routes, host="a.example.com") == "exact"
    assert taker(Head("/long/path"), *routes, host="b.example.com") == "wild"
    assert taker(Head("/long/path"), *routes, host="c.example.net") == "free"


def test_a_more_general_host_takes_what_the_specific_one_does_not() -> None:
    exact = route("exact", rule("x", match("/only")), hosts=["a.example.com"])
    wild = route("wild", rule("x", match("/")), hosts=["*.example.com"])
    assert taker(Head("/other"), exact, wild, host="a.example.com") == "wild"


def test_an_expression_matches_the_whole_path() -> None:
    expression = named("e", match("/v[0-9]+/chat", REGEX))
    assert taker(Head("/v12/chat"), expression) == "e"
    assert taker(Head("/v12/chat/x"), expression) is None
    assert taker(Head("/x/v12/chat"), expression) is None


def test_of_several_conditions_on_one_header_only_the_first_counts() -> None:
    conditions = [{"name": "Foo", "value": "1"}, {"name": "foo", "value": "2"}]
    assert taker(Head(foo="1"), named("r", match(headers=conditions))) == "r"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["/", "/a", "/a/b", "/a/b/c"]),
            st.sampled_from([PREFIX, EXACT]),
            st.sampled_from([None, "GET", "POST"]),
            st.sampled_from([[], ["a.x"], ["*.x"]]),
        ),
        min_size=1,
        max_size=6,
        unique_by=str,
    ),
    st.sampled_from(["/", "/a", "/a/b", "/a/bc", "/a/b/c/d"]),
    st.randoms(use_true_random=False),
)
def test_the_order_of_objects_does_not_matter(specs, path, rng) -> None:
    routes = [
        route(f"r{i}", rule("x", match(value, type_, **({"method": method} if method else {}))), hosts=hosts)
        for i, (value, type_, method, hosts) in enumerate(specs)
    ]
    shuffled = list(routes)
    rng.shuffle(shuffled)
    assert taker(Head(path), *routes, host="a.x") == taker(Head(path), *shuffled, host="a.x")
