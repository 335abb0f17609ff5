"""The warning agrees with the gateway: a rule that "can never match" is never taken by any request."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import event, given, settings
from hypothesis import strategies as st

from headgate import api, routing
from headgate.api import admission

TEXTS = st.sampled_from(["", "/", "/v1", "/v1/chat", "a", "ab", "b"])
NAMES = st.sampled_from(["x-a", "X-A", "x-b", "x b"])
STRING_MATCHES = st.one_of(
    st.builds(lambda text: {"exact": text}, TEXTS),
    st.builds(lambda text: {"prefix": text}, TEXTS),
    st.builds(lambda text: {"regex": text}, st.sampled_from(["", "^/", "/", "a", "^a$", ".*", "chat", "("])),
    st.just({}),
)
MATCHES = st.fixed_dictionaries(
    {},
    optional={
        "uri": STRING_MATCHES,
        "headers": st.dictionaries(NAMES, STRING_MATCHES, max_size=2),
        "body": st.sampled_from([{}, {"model": "m"}, {"model": "n"}]),
    },
)
RULES = st.lists(st.fixed_dictionaries({}, optional={"modelMatch": MATCHES}), min_size=2, max_size=4)
PATHS = ["/", "/v1", "/v1/chat", "/a", "/b/chat"]
VALUES = ["", "a", "ab", "/v1", "b"]


@settings(max_examples=100, deadline=None)
@given(RULES)
def test_no_request_takes_a_rule_that_is_warned_of(rules: Any) -> None:
    """Every request of a small world, routed as the gateway does it."""
    named = [
        rule | {"name": str(number), "targetModels": [{"modelServerName": "s"}]}
        for number, rule in enumerate(rules)
    ]
    spec = {"modelName": "m", "loraAdapters": ["n"], "rules": named}
    version = "networking.volcano.sh/v1alpha1"
    meta = {"name": "r", "namespace": "d"}
    found = admission.check({"apiVersion": version, "kind": "ModelRoute", "metadata": meta, "spec": spec})
    dead = {
        warning.partition("[")[2].partition("]")[0]
        for warning in found.warnings
        if warning.startswith("spec.rules[") and "can never match" in warning
    }
    event(f"{len(dead)} dead rules")
    route = api.ModelRoute(
        metadata=api.ObjectMeta(name="r", namespace="d"), spec=msgspec.convert(spec, api.ModelRouteSpec)
    )
    snapshot = routing.translate([route], [], [])
    for model in "mn":
        for path in PATHS:
            for first in VALUES:
                for second in VALUES:
                    headers = {b"x-a": first, b"x-b": second}
                    taken = routing.match(snapshot, model, path, lambda name, h=headers: h.get(name, ""))
                    assert taken is None or taken.rule.name not in dead
