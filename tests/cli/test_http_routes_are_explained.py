"""`headgate route explain --host`: which rule of an HTTPRoute takes a request, and why all others do not."""

import json

import pytest
import yaml
from click.testing import CliRunner

from headgate.cli import main

GROUP = "gateway.networking.k8s.io/v1"
HTTP = {"name": "http", "port": 80, "protocol": "HTTP"}


def obj(kind, name, spec, version=GROUP, namespace="shop"):
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def route(name, *rules, hosts=(), parent="front"):
    spec = {"parentRefs": [{"name": parent}], "hostnames": list(hosts), "rules": list(rules)}
    return obj("HTTPRoute", name, spec)


def rule(path, *backends, kind="PathPrefix", filters=(), **match):
    refs = [{"name": name, "port": 80, "weight": weight} for name, weight in backends]
    made = {"matches": [{"path": {"type": kind, "value": path}, **match}], "backendRefs": refs}
    return {**made, "filters": list(filters)} if filters else made


WORLD = [
    obj("GatewayClass", "headgate", {"controllerName": "headgate.dev/gateway-controller"}),
    obj("Gateway", "front", {"gatewayClassName": "headgate", "listeners": [HTTP]}),
    *(obj("Service", name, {"ports": [{"port": 80}]}, "v1") for name in ("web", "new")),
    route(
        "main",
        rule("/shop", ("web", 9), ("new", 1)),
        rule("/shop", ("web", 1), method="POST"),
        rule("/shop", ("web", 1), headers=[{"name": "X-Tier", "value": "gold"}]),
        rule("/shop", ("web", 1), queryParams=[{"name": "beta", "value": "1"}]),
        rule(
            "/old",
            filters=[
                {
                    "type": "RequestRedirect",
                    "requestRedirect": {"path": {"type": "ReplaceFullPath", "replaceFullPath": "/new"}},
                }
            ],
        ),
        rule("/lost", ("nothing", 1)),
        hosts=["shop.example"],
    ),
    route("any", rule("/", ("web", 1))),
    route("elsewhere", rule("/", ("web", 1)), hosts=["other.example"]),
    route("stray", rule("/", ("web", 1)), parent="front", hosts=["shop.example"]),
]
WORLD[-1]["spec"]["parentRefs"][0]["sectionName"] = "none"


@pytest.fixture
def explain(tmp_path):
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump_all(WORLD))

    def run(*args):
        return CliRunner().invoke(main, ["route", "explain", "--objects", str(file), *args])

    return run


def entries(result):
    (listener,) = json.loads(result.stdout)["listeners"]
    return {f"{each['route'].rpartition('/')[2]} {each['rule']}": each for each in listener["entries"]}


def test_the_rule_that_takes_the_request(explain):
    """With its backends by weight; others say which condition is not met, or that they come later."""
    result = explain("--host", "shop.example", "--path", "/shop/a?beta=2", "-o", "json")
    assert result.exit_code == 0, result.output
    found = entries(result)
    taken = found["main rules[0]"]
    assert taken["takes"]
    shown = [(each["name"], each["weight"], each["share"]) for each in taken["backends"]]
    assert shown == [("Service/shop/web:80", 9, 0.9), ("Service/shop/new:80", 1, 0.1)]
    assert {name: each["why"] for name, each in found.items() if not each["takes"]} == {
        "main rules[1]": "the method is GET",
        "main rules[2]": "the header x-tier is missing",
        "main rules[3]": "the query parameter beta is '2'",
        "main rules[4]": "the path is /shop/a",
        "main rules[5]": "the path is /shop/a",
        "any rules[0]": "would fit, but the one above takes precedence",
    }


def test_other_requests_are_taken_by_other_rules(explain):
    """By method, header and host."""
    result = explain("--host", "shop.example", "--path", "/shop", "--method", "POST", "-o", "json")
    assert entries(result)["main rules[1]"]["takes"]
    result = explain("--host", "shop.example", "--path", "/shop", "-H", "x-tier=gold", "-o", "json")
    assert entries(result)["main rules[2]"]["takes"]
    result = explain("--host", "unknown.example", "--path", "/shop", "-o", "json")
    assert list(entries(result)) == ["any rules[0]"]


def test_routes_without_effect_are_named(explain):
    """With the reason."""
    result = explain("--host", "shop.example", "--path", "/shop")
    assert "  > HTTPRoute shop/main rules[0] (path below /shop)\n" in result.stdout
    assert "        weight 9, 90%: Service/shop/web:80\n" in result.stdout
    _, _, absent = result.stdout.partition("Without effect:\n")
    assert "HTTPRoute shop/elsewhere: its host names are others: other.example" in absent
    assert "HTTPRoute shop/stray: Gateway shop/front has no listener named none" in absent


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (("--path", "/old"), 0, "redirect with 302 to /new"),
        (
            ("--path", "/lost"),
            1,
            "weight 1, 100%: a reference that leads nowhere: 500: there is no Service shop/nothing",
        ),
        (("--path", "/", "--port", "81"), 1, "has a listener on port 81"),
    ],
)
def test_responses_of_the_gateway_itself(explain, args, code, told):
    """Exits with 1 if they are errors."""
    result = explain("--host", "shop.example", *args)
    assert told in result.stdout
    assert result.exit_code == code


def test_what_does_not_go_together(explain):
    """Model names are explained without a host."""
    assert explain("--host", "a", "--model", "m").exit_code == 2
    result = explain("--host", "a b", "--path", "/")
    assert result.exit_code == 1
    assert "the gateway would reject this request" in result.output
