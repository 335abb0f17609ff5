"""`headgate convert`: a pool of one version becomes one of the other, ready to be applied."""

from __future__ import annotations

import json

import yaml
from click.testing import CliRunner, Result

from headgate.cli import main

OLD = """
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePool
metadata:
  name: llama
  namespace: llm
  uid: 0b4b
  resourceVersion: "7"
  managedFields: []
  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{}', team: chat}
spec:
  selector: {app: llama}
  targetPortNumber: 8000
status: {}
"""
NEW = """
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: llama}
spec:
  selector: {matchLabels: {app: llama}}
  targetPorts: [{number: 8000}, {number: 8001}]
  endpointPickerRef: {name: picker, port: {number: 9002}}
"""


def convert(text: str, *words: str) -> Result:
    return CliRunner().invoke(main, ["convert", "-f", "-", *words], input=text)


def test_what_a_cluster_prints_becomes_what_another_takes() -> None:
    """What the server wrote, and what was observed, stays behind."""
    assert yaml.safe_load(convert(OLD).output) == {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {"name": "llama", "namespace": "llm", "annotations": {"team": "chat"}},
        "spec": {"selector": {"matchLabels": {"app": "llama"}}, "targetPorts": [{"number": 8000}]},
    }


def test_a_list_is_taken_apart() -> None:
    """As `kubectl get -o yaml` prints it."""
    listed = {"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(OLD), yaml.safe_load(NEW)]}
    converted = list(yaml.safe_load_all(convert(yaml.safe_dump(listed)).output))
    assert [pool["apiVersion"] for pool in converted] == ["inference.networking.k8s.io/v1"] * 2


def test_there_and_back_is_where_it_was() -> None:
    """What the old version has no field for is kept in an annotation."""
    there = convert(NEW, "--to", "v1alpha1")
    assert yaml.safe_load(there.output)["spec"] == {"selector": {"app": "llama"}, "targetPortNumber": 8000}
    assert yaml.safe_load(convert(there.output).output) == yaml.safe_load(NEW)


def test_a_pool_of_the_version_stays_as_it_is() -> None:
    """So a mixed directory can be converted as a whole."""
    assert yaml.safe_load(convert(NEW).output) == yaml.safe_load(NEW)


def test_what_the_other_version_refuses_is_an_error() -> None:
    """With the file, the object, the field and what would do; nothing is printed to be applied."""
    done = convert(OLD.replace("8000", "0"))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "InferencePool llm/llama cannot become inference.networking.k8s.io/v1" in done.stderr
    assert "spec.targetPortNumber: 0" in done.stderr


def test_a_pool_with_mistakes_is_not_converted() -> None:
    """A misspelt field would be lost on the way."""
    done = convert(OLD.replace("targetPortNumber", "targetPort"))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "targetPort" in done.stderr


def test_other_kinds_are_counted_and_left_out() -> None:
    """A conversion speaks of pools alone."""
    other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    done = convert(f"{OLD}---\n{other}")
    assert len(list(yaml.safe_load_all(done.stdout))) == 1
    assert "skipped, not InferencePools: 1" in done.stderr
    nothing = convert(other)
    assert (nothing.exit_code, "no InferencePools" in nothing.stderr) == (1, True)


def test_pools_come_as_json_too() -> None:
    """`-o json`: one List of the same objects."""
    listed = json.loads(convert(OLD, "-o", "json").stdout)
    assert listed == {"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(convert(OLD).stdout)]}
