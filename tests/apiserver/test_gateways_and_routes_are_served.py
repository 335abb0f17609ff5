"""Gateways and HTTPRoutes have the defaults and limits of the Gateway API."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

API = "/apis/gateway.networking.k8s.io/v1"
GATEWAYS, ROUTES = (f"{API}/namespaces/default/{plural}" for plural in ("gateways", "httproutes"))
HTTP = {"name": "http", "port": 80, "protocol": "HTTP"}


def gateway(*listeners: dict[str, Any]) -> dict[str, Any]:
    spec = {"gatewayClassName": "headgate", "listeners": list(listeners) or [HTTP]}
    return {"metadata": {"name": "front"}, "spec": spec}


def route(*rules: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = {"parentRefs": [{"name": "front"}]}
    if rules:
        spec["rules"] = list(rules)
    return {"metadata": {"name": "r"}, "spec": spec}


async def test_defaults_are_those_of_the_gateway_api(http: httpx2.AsyncClient) -> None:
    made = (await http.post(GATEWAYS, json=gateway())).json()
    assert made["spec"]["listeners"] == [{**HTTP, "allowedRoutes": {"namespaces": {"from": "Same"}}}]
    spec = (await http.post(ROUTES, json=route())).json()["spec"]
    group = {"group": "gateway.networking.k8s.io", "kind": "Gateway"}
    assert spec["parentRefs"] == [{"name": "front", **group}]
    slash = {"path": {"type": "PathPrefix", "value": "/"}}
    assert spec["rules"] == [{"matches": [slash]}]
    backends = {"backendRefs": [{"name": "web", "port": 80}]}
    [rule] = (await http.post(ROUTES, json=route(backends) | {"metadata": {"name": "s"}})).json()["spec"][
        "rules"
    ]
    weighted = {"name": "web", "port": 80, "group": "", "kind": "Service", "weight": 1}
    assert rule == {"matches": [slash], "backendRefs": [weighted]}


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({"backendRefs": [{"name": "web"}]}, "Must have port for Service reference"),
        ({"matches": [{"path": {"value": "foo"}}]}, "value must be an absolute path"),
        ({"matches": [{"path": {"value": "/a//b"}}]}, "must not contain '//'"),
        ({"timeouts": {"request": "1s", "backendRequest": "2s"}}, "backendRequest timeout cannot be longer"),
        (
            {
                "filters": [{"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}}],
                "backendRefs": [{"name": "web", "port": 80}],
            },
            "RequestRedirect filter must not be used together with backendRefs",
        ),
        (
            {
                "matches": [{"path": {"value": "/a"}}, {"path": {"value": "/b"}}],
                "filters": [
                    {
                        "type": "URLRewrite",
                        "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/c"}},
                    }
                ],
            },
            "exactly one PathPrefix match must be specified",
        ),
    ],
)
async def test_rules_that_make_no_sense_are_rejected(
    http: httpx2.AsyncClient, rule: dict[str, Any], told: str
) -> None:
    answer = await http.post(ROUTES, json=route(rule))
    assert answer.status_code == 422
    assert told in answer.json()["message"]


async def test_listeners_are_distinct(http: httpx2.AsyncClient) -> None:
    answer = await http.post(GATEWAYS, json=gateway(HTTP, {**HTTP, "name": "again"}))
    assert answer.status_code == 422
    assert "Combination of port, protocol and hostname" in answer.json()["message"]


async def test_the_controller_of_a_class_stays(http: httpx2.AsyncClient) -> None:
    classes, merge = f"{API}/gatewayclasses", {"content-type": "application/merge-patch+json"}
    made = {"metadata": {"name": "headgate"}, "spec": {"controllerName": "headgate.dev/gateway-controller"}}
    assert (await http.post(classes, json=made)).status_code == 201
    answer = await http.patch(
        f"{classes}/headgate", json={"spec": {"controllerName": "a.b/c"}}, headers=merge
    )
    assert answer.status_code == 422
    assert "Value is immutable" in answer.json()["message"]
