# ruff: noqa: E501 - texts stand whole, as they are printed
"""What is refused in a ModelRoute, and what its author is told, word by word."""

from __future__ import annotations

from typing import Any

import pytest

TO_S = {"targetModels": [{"modelServerName": "s", "weight": 100}]}


def matching(**match: Any) -> dict[str, Any]:
    return {"modelMatch": match} | TO_S


@pytest.fixture
def server(make):
    return make("server", "s", {"workloadSelector": {"matchLabels": {"app": "s"}}})


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        (
            {"modelName": "m", "rules": [matching(uri={"regex": "("}, headers={"h": {"regex": "[z-a]"}})]},
            [
                'spec.rules[0].modelMatch.headers[h].regex: Invalid value: "[z-a]": must be a regular '
                "expression that RE2 takes: invalid character class range: z-a",
                'spec.rules[0].modelMatch.uri.regex: Invalid value: "(": must be a regular expression that '
                "RE2 takes: missing ): (",
            ],
        ),
        (
            {"modelName": "m", "rules": [matching(uri={"regex": "(abcde){500}"})]},
            [
                'spec.rules[0].modelMatch.uri.regex: Invalid value: "(abcde){500}": is too large a regular '
                "expression: it compiles to 3504 instructions, and at most 2000 are allowed: repeat less often "
                "(such as {1,100}), use fewer alternatives, or ASCII classes instead of Unicode ones",
            ],
        ),
    ],
)
def test_what_is_refused(judge, make, server, spec, errors):
    """All errors come at once, each with its field and what would be right."""
    assert judge(make("route", "r", spec), server)[0] == errors


@pytest.mark.parametrize(
    ("spec", "warnings"),
    [
        ({"modelName": "m", "rules": [TO_S]}, []),
        (
            {"modelName": "m", "rules": []},
            ["spec.rules: is empty: every request for this route is answered with 404"],
        ),
        (
            {"modelName": "m", "rules": [{"targetModels": [{"modelServerName": "gone", "weight": 1}]}]},
            [
                "spec.rules[0].targetModels[0].modelServerName: there is no ModelServer default/gone; "
                "requests for it fail until there is"
            ],
        ),
        (
            {"modelName": "m", "rules": [{"targetModels": [{"modelServerName": "s", "weight": 0}]}]},
            [
                "spec.rules[0].targetModels: the only weight is 0: requests that match this rule "
                "go to the next route for the model, if any"
            ],
        ),
        (
            {"modelName": "m", "rules": [{"targetModels": [{"modelServerName": "s", "weight": 0}] * 2}]},
            [
                'spec.rules[0].targetModels[1].modelServerName: "s" is targetModels[0] already; their '
                "weights add up",
                "spec.rules[0].targetModels: every weight is 0: requests that match this rule "
                "go to the next route for the model, if any",
            ],
        ),
        (
            {"modelName": "m", "loraAdapters": ["a", "a", "m"], "rules": [TO_S]},
            [
                'spec.loraAdapters[1]: "a" is listed already, as loraAdapters[0]',
                'spec.loraAdapters[2]: "m" is the modelName already: listing it has no effect',
            ],
        ),
        (
            {"modelName": "m ", "rules": [TO_S]},
            ["spec.modelName: 'm ' begins or ends with a space, and requests must do so too"],
        ),
        (
            {"modelName": "m", "loraAdapters": ["a"], "rules": [matching(body={"model": "b"})]},
            [
                'spec.rules[0].modelMatch.body.model: can never match "b": this route gets only requests '
                'for "m", "a"'
            ],
        ),
        (
            {"modelName": "m", "rules": [matching(uri={"exact": "v1"}), matching(uri={"prefix": "/a?b"})]},
            [
                "spec.rules[0].modelMatch.uri.exact: can never match: 'v1' does not begin with \"/\", as "
                "every path does",
                "spec.rules[1].modelMatch.uri.prefix: can never match: only the path is compared, without "
                "the query behind ?",
            ],
        ),
        (
            {"modelName": "m", "rules": [matching(headers={"x y": {"exact": "1"}})]},
            [
                "spec.rules[0].modelMatch.headers[x y]: can never match: 'x y' is not the name of a header, so it is always empty"
            ],
        ),
        (
            {"modelName": "m", "rules": [matching(headers={"X-A": {"exact": "1"}, "x-a": {"exact": "1"}})]},
            ["spec.rules[0].modelMatch.headers[x-a]: is the same header as 'X-A': both conditions must hold"],
        ),
        (
            {"modelName": "m", "rules": [matching(uri={})]},
            [
                "spec.rules[0].modelMatch.uri: is no condition: set exact, prefix or regex, or leave it out",
            ],
        ),
        (
            {"modelName": "m", "rules": [TO_S], "rateLimit": {"unit": "minute", "global": {}}},
            [
                "spec.rateLimit: limits nothing: set inputTokensPerUnit or outputTokensPerUnit",
                "spec.rateLimit.global: has no effect without redis.address: each gateway counts for itself",
            ],
        ),
        (
            {
                "modelName": "m",
                "rules": [TO_S],
                "rateLimit": {"inputTokensPerUnit": 100, "global": {"redis": {"address": "redis"}}},
            },
            ['spec.rateLimit.global.redis.address: "redis" is not host:port, as in "redis.default.svc:6379"'],
        ),
        (
            {"modelName": "m", "rules": [TO_S], "rateLimit": {"inputTokensPerUnit": 99}},
            [
                "spec.rateLimit.inputTokensPerUnit: is less than most prompts have: one of more than 99 tokens "
                "is always refused"
            ],
        ),
    ],
)
def test_what_is_warned_of(judge, make, server, spec, warnings):
    """Legal, but it will not do what its author thinks."""
    assert judge(make("route", "r", spec), server) == ([], warnings)


def test_rules_behind_a_broader_one_never_match(judge, make, server):
    """The warning names the rule that comes first; a narrower rule before a broader one is as it should be."""
    rules = [
        matching(headers={"X-User": {"exact": "vip"}}, uri={"prefix": "/v1/chat"}),
        matching(headers={"x-user": {"prefix": "v"}}),
        {"name": "again"} | matching(headers={"x-user": {"exact": "vic"}}, uri={"prefix": "/v1"}),
        {"name": "all"} | TO_S,
        matching(uri={"exact": "/v1/models"}),
        {"name": "all", "modelMatch": {}} | TO_S,
    ]
    errors, warnings = judge(make("route", "r", {"modelName": "m", "rules": rules}), server)
    assert errors == []
    assert warnings == [
        "spec.rules[2]: can never match: rules[1] comes first and matches every request that this one would",
        'spec.rules[4]: can never match: rules[3] ("all") comes first and matches every request',
        'spec.rules[5]: can never match: rules[3] ("all") comes first and matches every request',
        'spec.rules[5].name: "all" is the name of rules[3] as well; logs mix them up',
    ]


@pytest.mark.parametrize(
    ("first", "second", "covered"),
    [
        ({}, {"uri": {"exact": "/a"}}, True),
        ({"uri": {"prefix": "/"}}, {"headers": {"a": {"exact": "b"}}}, True),
        ({"uri": {"regex": "^/"}}, {}, True),
        ({"uri": {"prefix": "/v1"}}, {"uri": {"exact": "/v1/chat"}}, True),
        ({"uri": {"prefix": "/v1"}}, {"uri": {"prefix": "/v1/chat"}}, True),
        ({"uri": {"prefix": "/v1/chat"}}, {"uri": {"prefix": "/v1"}}, False),
        ({"uri": {"regex": "chat"}}, {"uri": {"exact": "/v1/chat"}}, True),
        ({"uri": {"regex": "chat"}}, {"uri": {"regex": "chat"}}, True),
        ({"uri": {"regex": "chat"}}, {"uri": {"prefix": "/chat"}}, False),
        ({"uri": {"exact": "/a"}}, {"uri": {"exact": "/a"}}, True),
        ({"uri": {"exact": "/a"}}, {}, False),
        ({"headers": {"a": {"prefix": ""}}}, {}, True),
        ({"headers": {"a": {"exact": ""}}}, {}, False),
        ({"body": {"model": "m"}}, {"body": {"model": "m"}, "uri": {"exact": "/a"}}, True),
        ({"body": {"model": "m"}}, {}, False),
        ({"headers": {"a": {"exact": "1"}, "b": {"exact": "1"}}}, {"headers": {"a": {"exact": "1"}}}, False),
    ],
)
def test_a_rule_covers_another_if_all_its_conditions_are_weaker(judge, make, server, first, second, covered):
    """Headers by their names in any case, paths as the gateway compares them."""
    spec = {"modelName": "m", "rules": [matching(**first), matching(**second)]}
    warnings = judge(make("route", "r", spec), server)[1]
    assert any("rules[1]: can never match" in warning for warning in warnings) is covered


def test_routes_for_one_name_know_who_is_asked_first(judge, make, server):
    """The older one is; whether it leaves anything to the younger depends on its rules."""
    spec = {"modelName": "m", "rules": [TO_S]}
    narrow = {"modelName": "m", "rules": [matching(uri={"prefix": "/v1"})]}
    old = make("route", "old", spec, creationTimestamp="2026-01-01T00:00:00Z")
    picky = make("route", "picky", narrow, creationTimestamp="2026-01-01T00:00:00Z")
    new = make("route", "new", spec, creationTimestamp="2026-01-02T00:00:00Z")
    assert judge(new, server, old)[1] == [
        'spec.modelName: ModelRoute default/old is for "m" too, older, and takes every request: this route '
        "gets none"
    ]
    nowhere = {"modelName": "m", "rules": [{"targetModels": [{"modelServerName": "s", "weight": 0}]}]}
    dark = make("route", "dark", nowhere, creationTimestamp="2026-01-01T00:00:00Z")
    assert judge(new, server, dark)[1] == [
        'spec.modelName: ModelRoute default/dark is for "m" too and older: this route gets what no rule '
        "there matches"
    ]
    assert judge(new, server, picky)[1] == [
        'spec.modelName: ModelRoute default/picky is for "m" too and older: this route gets what no rule '
        "there matches"
    ]
    assert judge(old, server, new)[1] == [
        'spec.modelName: ModelRoute default/new is for "m" too and younger: it gets what no rule here matches'
    ]
    assert judge(new, server, new)[1] == []


def test_names_of_models_go_before_names_of_adapters(judge, make, server):
    """A name that some route has as its model is never looked up among the adapters."""
    model = make("route", "model", {"modelName": "x", "rules": [TO_S]})
    adapter = make("route", "adapter", {"loraAdapters": ["x"], "rules": [TO_S]})
    second = make("route", "second", {"loraAdapters": ["x"], "rules": [TO_S]})
    assert judge(adapter, server, model)[1] == [
        'spec.loraAdapters[0]: "x" is the model name of ModelRoute default/model, which gets its requests'
    ]
    assert judge(model, server, adapter)[1] == [
        'spec.modelName: "x" is a LoRA adapter of ModelRoute default/adapter: requests for it come here '
        "instead from now on"
    ]
    assert judge(second, server, adapter)[1] == [
        'spec.loraAdapters[0]: "x" is an adapter of ModelRoute default/adapter as well; that one is asked first'
    ]


def test_a_route_that_a_model_made_does_not_compete_with_it(judge, make, server):
    """The owner of a route speaks through it; any other Model for the name is told."""
    owner = {"apiVersion": "registry.volcano.sh/v1alpha1", "kind": "Model", "name": "m", "uid": "1"}
    mine = make("route", "m", {"modelName": "m", "rules": [TO_S]}, ownerReferences=[owner])
    model = make("model", "m", {"backends": []})
    other = make("model", "other", {"name": "m", "backends": []})
    assert judge(mine, server, model)[1] == []
    assert judge(mine, server, other)[1] == [
        'spec.modelName: Model default/other serves "m" too, by a ModelRoute of its own'
    ]


def test_a_target_in_another_namespace_is_pointed_at(judge, make):
    """A route reaches only its own namespace, which is easily forgotten."""
    server = make("server", "s", {"workloadSelector": {"matchLabels": {"app": "s"}}}, namespace="prod")
    assert judge(make("route", "r", {"modelName": "m", "rules": [TO_S]}), server)[1] == [
        "spec.rules[0].targetModels[0].modelServerName: there is no ModelServer default/s, but prod/s: a route reaches only its own namespace"
    ]


def test_an_unchanged_spec_is_not_judged_again(judge, make):
    """A label can be set on a route that is no longer as it should be."""
    spec = {"modelName": "m", "rules": []}
    assert judge(make("route", "r", spec, labels={"a": "b"}), old=make("route", "r", spec)) == ([], [])
