"""Whoever may create a CustomResourceDefinition cannot take the API server down with it."""

import time

import pytest

from headgate.apiserver import errors
from headgate.apiserver.judge import Judge
from headgate.apiserver.targets import Target, WriteOptions

PLAIN = {"type": "object", "properties": {"size": {"type": "integer"}}}
LISTS = {
    "type": "object",
    "properties": {"a": {"type": "array", "items": {"type": "string"}}, "text": {"type": "string"}},
}


def ruled(*rules, **more):
    """A schema with these CEL rules on `spec`, which has a list `a` and a `text`."""
    spec = LISTS | {"x-kubernetes-validations": [{"rule": rule} for rule in rules]} | more
    return {"type": "object", "properties": {"spec": spec}}


def definition(schema, plural="costlies"):
    kind = plural.capitalize()
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.test.example"},
        "spec": {
            "group": "test.example",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [version],
        },
    }


@pytest.fixture
def server(parts):
    """The parts of a server, and a judge whose clock the test moves and that cuts off after 0.2 s of CPU."""
    parts.clock = [0.0]
    parts.objects.judge = Judge(cpu_s=0.2, clock=lambda: parts.clock[0])
    yield parts
    parts.objects.judge.close()


def create(server, obj, group="test.example", plural="costlies"):
    served = server.registry.find(group, "v1", plural)
    namespace = "default" if served.namespaced else ""
    return server.objects.create(
        Target(served, namespace, ""), obj, WriteOptions(field_validation="Strict"), []
    )


def define(server, schema, plural="costlies"):
    create(server, definition(schema, plural), "apiextensions.k8s.io", "customresourcedefinitions")
    server.store.flush()


def thing(name="a", plural="costlies", **spec):
    return {
        "apiVersion": "test.example/v1",
        "kind": plural.capitalize(),
        "metadata": {"name": name},
        "spec": spec,
    }


def refusal(call, *arguments):
    with pytest.raises(errors.StatusError) as caught:
        call(*arguments)
    assert caught.value.code == 422
    return caught.value.message


DOUBLING = "[self.text].all(a, [{}].all(b, [{}].all(c, [{}].all(d, size(d) > 0))))".format(
    *("+".join([name] * 200) for name in "abc")
)
"""Makes a text of 800 MB of one of 100 bytes, with loops over lists of one item."""


@pytest.mark.parametrize(
    "rule",
    [
        DOUBLING,
        "self.a.all(x, x.matches('(' + x + '{30}){30}|' + x))",
    ],
    ids=["doubling", "patterns"],
)
def test_a_rule_that_takes_too_long_refuses_the_write(server, rule):
    """422 names the field, the rule, the bound and what to do; the server itself spent next to nothing."""
    define(server, ruled(rule))
    began = time.process_time()
    obj = thing(
        a=[f"w{place}" for place in range(20_000)], text="x" * 1000 if rule != DOUBLING else "x" * 100
    )
    message = refusal(create, server, obj)
    assert time.process_time() - began < 2
    assert "spec: Forbidden: judging this Costlies by the schema of its definition took more than" in message
    assert rule[:40] in message
    assert "maxItems" in message


def test_a_rule_that_takes_too_much_memory_refuses_the_write(server):
    """The helper may use 256 MB here; the rule makes a text of 800 MB."""
    server.objects.judge = Judge(cpu_s=20, memory_bytes=256 << 20)
    define(server, ruled(DOUBLING))
    message = refusal(create, server, thing(text="x" * 100))
    assert "took more than 256 MB of memory, the last of it for the rule" in message
    server.objects.judge.close()


def test_a_schema_that_was_cut_off_rests(server):
    """Its objects are refused at once for nine times as long as the judgement took, others are judged."""
    define(server, ruled(DOUBLING))
    define(server, ruled("self.text != ''"), "fines")
    judge = server.objects.judge
    costly = thing(text="x" * 100)
    assert "took more than" in refusal(create, server, costly)
    began = judge.statistics()["judged_in_helper"]
    assert "is tried again in 2 s" in refusal(create, server, costly)
    assert judge.statistics()["judged_in_helper"] == began
    create(server, thing(plural="fines", text="x"), plural="fines")
    server.clock[0] += 2
    assert "took more than" in refusal(create, server, costly)
    assert judge.statistics()["cut_off"] == 2


def test_verdicts_are_those_of_the_server_itself(server):
    """What the helper finds is worded as ever, with values; updates are compared with what was."""
    define(server, ruled("self.text != 'no'", "!has(oldSelf.text) || self.text == oldSelf.text"))
    message = refusal(create, server, thing(text="no", a=[1]))
    assert 'spec.a[0] in body must be of type string: "integer"' in message
    message = refusal(create, server, thing(text="no"))
    assert "failed rule: self.text != 'no'" in message
    created = create(server, thing(text="yes")).obj
    served = server.registry.find("test.example", "v1", "costlies")
    changed = created | {"spec": {"text": "other"}}
    message = refusal(server.objects.update, Target(served, "default", "a"), changed, WriteOptions(), [])
    assert "failed rule: !has(oldSelf.text)" in message


def test_alternatives_inside_alternatives_are_cut_off(server):
    """Six levels of allOf with three branches each, for each item of a list."""
    items = {"maxLength": 5}
    for _ in range(6):
        items = {"allOf": [items, items, items]}
    lists = LISTS["properties"] | {"a": {"type": "array", "items": {"type": "string"} | items}}
    define(server, {"type": "object", "properties": {"spec": LISTS | {"properties": lists}}})
    message = refusal(create, server, thing(a=["x"] * 2000))
    assert "<nil>: Forbidden: judging this Costlies" in message
    assert "took more than 0.2 s of CPU time" in message


def test_a_definition_that_takes_too_long_to_check_is_refused(server):
    """Hundreds of rules, each of which takes a while to read."""
    rules = [f"self.a.all(x, x != '{place}'{' && true' * 900})" for place in range(300)]
    message = refusal(define, server, ruled(*rules))
    assert "spec.versions[0].schema.openAPIV3Schema" in message
    assert "checking this schema took more than 0.2 s of CPU time" in message
    assert server.registry.find("test.example", "v1", "costlies") is None


def test_defaults_cannot_make_an_object_of_any_size(server):
    """A default of 10 KB in each of 20,000 items is refused before it is filled in."""
    item = {"type": "object", "properties": {"text": {"type": "string", "default": "x" * 10_000}}}
    spec = {"type": "object", "properties": {"items": {"type": "array", "items": item}}}
    define(server, {"type": "object", "properties": {"spec": spec}})
    assert (
        len(create(server, thing("small", items=[{} for _ in range(10)])).obj["spec"]["items"][9]["text"])
        == 10_000
    )
    message = refusal(create, server, thing(items=[{} for _ in range(20_000)]))
    assert "the defaults of its schema would add more than 2000000 bytes: write fewer items" in message


def test_cheap_schemas_need_no_helper(server):
    """Types, formats, limits and a few patterns are judged in the server itself."""
    define(server, {"type": "object", "properties": {"spec": PLAIN}})
    before = server.objects.judge.statistics()["judged_in_helper"]
    create(server, thing(size=1))
    assert server.objects.judge.statistics()["judged_in_helper"] == before


def test_own_kinds_need_no_helper(tmp_path):
    """Headgate's own definitions have rules, which are known to be cheap."""
    from headgate.apiserver import Config
    from headgate.apiserver.parts import Parts

    parts = Parts(Config(tmp_path))
    assert parts.objects.judge.statistics()["judged_in_helper"] == 0
    served = parts.registry.find("inference.networking.k8s.io", "v1", "inferencepools")
    assert parts.objects.judge.costly(served) is None
    parts.store.close()
