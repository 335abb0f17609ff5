"""A real API server rejects and warns by the webhook, as the embedded one does by its rules."""

from __future__ import annotations

import copy
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import admission_cases
import httpx2
import pytest

from headgate import api
from headgate.api import definitions
from headgate.api.admission.enforcement import EnforcedBy

CASES = [case for case in admission_cases.load_all() if case.rule.by is EnforcedBy.WEBHOOK]
PATHS = {
    (each.api_version, each.kind): each.path
    for each in (*definitions.custom_resources(), *definitions.builtin_resources())
}
WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
ELSEWHERE = "elsewhere"


@dataclass(frozen=True)
class Place:
    """A namespace of the cluster for one case."""

    http: httpx2.Client
    namespace: str

    def create(self, obj: dict[str, Any], *, is_dry: bool = False) -> httpx2.Response:
        namespace = obj["metadata"].get("namespace", self.namespace)
        path = PATHS[obj["apiVersion"], obj["kind"]](namespace)
        return self.http.post(path, json=obj, params={"dryRun": "All"} if is_dry else {})

    def made(self, obj: dict[str, Any]) -> dict[str, Any]:
        answer = self.create(obj)
        assert answer.status_code == 201, answer.text
        return answer.json()

    def try_to_replace(self, obj: dict[str, Any]) -> httpx2.Response:
        path = PATHS[obj["apiVersion"], obj["kind"]](self.namespace, obj["metadata"]["name"])
        now = self.http.get(path).json()
        return self.http.put(path, json=now | {"spec": obj["spec"]}, params={"dryRun": "All"})


def told(answer: httpx2.Response) -> list[str]:
    """The message of a rejection, or the warnings."""
    if answer.status_code >= 300:
        return [answer.json()["message"]]
    found = WARNING.findall(", ".join(answer.headers.get_list("warning")))
    return [re.sub(r"\\(.)", r"\1", each) for each in found]


@pytest.fixture(scope="module")
def http(cluster, webhook_of, connected, eventually) -> Iterator[httpx2.Client]:
    """Of a cluster whose API server asks a webhook, and rejects what it cannot ask about."""
    webhook_of("rules", failure_policy="Fail")
    client = connected(cluster.kubeconfig)
    client.post("/api/v1/namespaces", json={"metadata": {"name": ELSEWHERE}})
    place = Place(client, "default")
    binding = admission_cases.base("AutoscalingPolicyBinding").obj
    eventually(lambda: "Not found" in str(told(place.create(binding, is_dry=True))))
    yield client
    client.delete(f"/api/v1/namespaces/{ELSEWHERE}")


@pytest.fixture
def place(http) -> Iterator[Place]:
    name = f"case-{uuid.uuid4().hex[:8]}"
    assert http.post("/api/v1/namespaces", json={"metadata": {"name": name}}).status_code == 201
    yield Place(http, name)
    http.delete(f"/api/v1/namespaces/{name}")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rule_is_enforced(place: Place, eventually: Callable[..., Any], case) -> None:
    """With the other objects of the case there; the webhook sees them a moment after they are created."""
    others = [copy.deepcopy(each) for each in case.others]
    later = [each for each in others if each["metadata"]["name"] == "younger"]
    for other in (each for each in others if each not in later):
        place.made(other)
    if case.before is not None:
        before = place.made(case.before)
        eventually(lambda: _is_in_another_second(place, before))
    for other in later:
        place.made(other)
    write = place.try_to_replace if case.before is not None else _creating(place)
    says = case.says.replace("default", place.namespace)
    eventually(lambda: any(says in text for text in told(write(case.obj))))
    answer = write(case.obj)
    assert answer.status_code == (422 if case.rule.is_error else 200 if case.before is not None else 201)
    if case.rule.is_error:
        causes = answer.json()["details"]["causes"]
        assert sorted(cause["field"] for cause in causes) == sorted(case.refused)
    for other in others:
        if other["metadata"].get("namespace") == ELSEWHERE:
            path = PATHS[other["apiVersion"], other["kind"]](ELSEWHERE, other["metadata"]["name"])
            place.http.delete(path)


@pytest.mark.parametrize("base", admission_cases.bases(), ids=lambda base: base.obj["kind"])
def test_a_valid_object_has_no_warnings(place: Place, eventually: Callable[..., Any], base) -> None:
    """But that nothing acts on its kind yet."""
    for other in base.others:
        place.made(other)

    def holds() -> bool:
        answer = place.create(base.obj, is_dry=True)
        return answer.status_code == 201 and all(each.startswith("kind: ") for each in told(answer))

    eventually(holds)


def test_a_rejection_names_the_object(place: Place) -> None:
    """kubectl prints it as it prints that of an API server."""
    [case] = [each for each in CASES if each.rule.name == "regex-too-large"]
    status = place.create(case.obj, is_dry=True).json()
    assert (status["reason"], status["code"]) == ("Invalid", 422)
    details = status["details"]
    assert (details["name"], details["kind"]) == ("chat", "ModelRoute")
    assert details["group"] == api.ModelRoute.resource.group


def _creating(place: Place) -> Callable[[dict[str, Any]], httpx2.Response]:
    return lambda obj: place.create(obj, is_dry=True)


def _is_in_another_second(place: Place, obj: dict[str, Any]) -> bool:
    """Creation times have whole seconds, and of two in one second, the name decides."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c-{uuid.uuid4().hex[:8]}"}}
    return place.made(config)["metadata"]["creationTimestamp"] > obj["metadata"]["creationTimestamp"]
