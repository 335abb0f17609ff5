"""A real API server rejects by our definitions what the embedded one rejects, at the same fields."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import admission_cases
import httpx2
import pytest

from headgate import api
from headgate.api.admission.enforcement import EnforcedBy

DEFINITION = EnforcedBy.DEFINITION
CASES = [case for case in admission_cases.load_all() if case.rule.by is DEFINITION]
PLURALS = {
    (f"{d['spec']['group']}/{version['name']}", d["spec"]["names"]["kind"]): d["spec"]["names"]["plural"]
    for d in api.custom_definitions()
    for version in d["spec"]["versions"]
}
POLICIES = "/apis/registry.volcano.sh/v1alpha1/namespaces/default/autoscalingpolicies"
POLICY = {
    "apiVersion": "registry.volcano.sh/v1alpha1",
    "kind": "AutoscalingPolicy",
    "metadata": {"name": "by-load"},
    "spec": {"metrics": [{"metricName": "load", "targetValue": 1}]},
}


@dataclass(frozen=True)
class Server:
    """An API server, by its kubeconfig."""

    http: httpx2.Client

    def write(self, obj: dict[str, Any], before: dict[str, Any] | None) -> dict[str, list[str]]:
        """Errors by field, as a dry run reports them."""
        path = f"/apis/{obj['apiVersion']}/namespaces/default/{PLURALS[obj['apiVersion'], obj['kind']]}"
        if before is None:
            return _errors(self.http.post(path, json=obj, params={"dryRun": "All"}))
        made = self.http.post(path, json=before)
        assert made.status_code == 201, made.text
        try:
            changed = made.json() | {"spec": obj["spec"]}
            place = f"{path}/{obj['metadata']['name']}"
            return _errors(self.http.put(place, json=changed, params={"dryRun": "All"}))
        finally:
            self.http.delete(f"{path}/{obj['metadata']['name']}")


def _errors(answer: httpx2.Response) -> dict[str, list[str]]:
    if answer.status_code < 300:
        return {}
    assert answer.status_code == 422, answer.text
    found: dict[str, list[str]] = {}
    for cause in answer.json()["details"]["causes"]:
        if cause["field"] != "<nil>":  # a note that some rules were not checked
            found.setdefault(cause["field"], []).append(cause["message"])
    return found


@pytest.fixture(scope="module")
def real(cluster, connected) -> Server:
    return Server(connected(cluster.kubeconfig))


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory, connected) -> Iterator[Server]:
    state = tmp_path_factory.mktemp("embedded")
    command = [sys.executable, "-m", "headgate", "apiserver", "--state", state, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        while not (state / "kubeconfig").exists():
            assert process.stdout.readline(), "the server ended"
        http = connected(state / "kubeconfig")
        # The embedded server alone demands that a binding's policy is there.
        made = http.post(POLICIES, json=POLICY)
        assert made.status_code == 201, made.text
        yield Server(http)
        process.terminate()
        process.communicate()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_both_servers_reject_the_same_fields(real: Server, embedded: Server, case) -> None:
    """With the text of the rule."""
    obj = copy.deepcopy(case.obj)
    obj["metadata"]["name"] = before_name = f"c-{uuid.uuid4().hex[:10]}"
    if case.rule.name == "adapter-model":
        obj["metadata"]["name"] = case.obj["metadata"]["name"]  # which the rule compares
    before = case.before and case.before | {"metadata": {"name": before_name}}
    there, here = real.write(obj, before), embedded.write(obj, before)
    assert sorted(there) == sorted(case.refused), json.dumps(there)
    assert sorted(here) == sorted(there), json.dumps(here)
    for field in case.refused:
        assert any(case.says in message for message in there[field]), there
        assert any(case.says in message for message in here[field]), here


@pytest.mark.parametrize("base", admission_cases.bases(), ids=lambda base: base.obj["kind"])
def test_both_servers_accept_a_valid_object(real: Server, embedded: Server, base) -> None:
    """So that each rejection comes from the change of its case."""
    obj = base.obj | {"metadata": {"name": f"c-{uuid.uuid4().hex[:10]}"}}
    assert real.write(obj, None) == {}
    assert embedded.write(obj, None) == {}
