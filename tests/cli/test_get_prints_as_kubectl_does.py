"""`headgate get` and `describe`: the server's tables, whole objects, and helpful refusals."""

import json
import re
from typing import Any

import yaml

from headgate.cli.manifests import load


def test_a_table_has_the_columns_of_the_server(headgate, route) -> None:
    """As wide as their content, three blanks apart."""
    headgate("apply", "-f", "-", stdin=route("chat") + route("a-longer-name"))
    shown = re.sub(r"\d+s", "5s", headgate("get", "modelroutes"))
    assert [line.split() for line in shown.splitlines()] == [
        ["NAME", "MODEL", "READY", "AGE"],
        ["a-longer-name", "a-longer-name", "5s"],
        ["chat", "chat", "5s"],
    ]
    assert shown.splitlines()[2].startswith("chat            chat            ")


def test_every_name_of_a_kind_is_understood(headgate, config_map) -> None:
    """Plural, singular, short name, kind, with and without group and version."""
    headgate("apply", "-f", "-", stdin=config_map)
    for word in ("configmaps", "configmap", "cm", "ConfigMap"):
        assert headgate("get", word, "-o", "name").splitlines() == ["configmap/settings"]
    for word in ("modelroutes.networking.volcano.sh", "modelroute.v1alpha1.networking.volcano.sh", "mr"):
        assert headgate.run("get", word).stderr == f"No resources found in {headgate.namespace} namespace.\n"


def test_several_kinds_are_told_apart(headgate, route, config_map) -> None:
    """A block for each, with the kind before the names."""
    headgate("apply", "-f", "-", stdin=route() + config_map)
    first, second = headgate("get", "mr,cm").split("\n\n")
    assert first.splitlines()[1].startswith("modelroute.networking.volcano.sh/chat ")
    assert second.splitlines()[1].startswith("configmap/settings ")


def test_selectors_choose(headgate, route) -> None:
    """By labels and by fields."""
    headgate("apply", "-f", "-", stdin=route("a", labels="{tier: x}") + route("b", labels="{tier: z}"))
    assert headgate("get", "mr", "-l", "tier=z", "-o", "name") == "modelroute.networking.volcano.sh/b\n"
    by_field = headgate("get", "mr", "--field-selector", "metadata.name=a", "-o", "name")
    assert by_field == "modelroute.networking.volcano.sh/a\n"


def test_all_namespaces_get_a_column(headgate, config_map) -> None:
    """-A, with labels on request."""
    headgate("apply", "-f", "-", stdin=config_map)
    shown = headgate(
        "get", "cm", "-A", "--show-labels", "--field-selector", f"metadata.namespace={headgate.namespace}"
    )
    heading, row = shown.splitlines()
    assert heading.split() == ["NAMESPACE", "NAME", "DATA", "AGE", "LABELS"]
    assert row.split()[:3] == [headgate.namespace, "settings", "1"]
    assert row.endswith("<none>")


def test_what_is_printed_whole_can_be_applied_again(headgate, route, tmp_path) -> None:
    """YAML and JSON, without managed fields, a List for several."""
    headgate("apply", "-f", "-", stdin=route("a") + route("b"))
    listed = yaml.safe_load(headgate("get", "mr", "-o", "yaml"))
    assert (listed["kind"], len(listed["items"])) == ("List", 2)
    assert listed["items"][0]["kind"] == "ModelRoute"
    one = json.loads(headgate("get", "mr/a", "-o", "json"))
    assert "managedFields" not in one["metadata"]
    file = tmp_path / "list.yaml"
    file.write_text(headgate("get", "mr", "-o", "yaml"))
    assert [manifest.content["metadata"]["name"] for manifest in load([str(file)])] == ["a", "b"]


def test_a_missing_object_hides_no_other(headgate, config_map) -> None:
    """What is there is printed; what is not is an error in the server's words."""
    headgate("apply", "-f", "-", stdin=config_map)
    result = headgate.run("get", "cm/settings", "cm/none", "-o", "name")
    assert (result.exit_code, result.stdout) == (1, "configmap/settings\n")
    assert result.stderr == 'Error: from the server (NotFound): configmaps "none" not found\n'
    assert headgate.run("get", "cm/none", "--ignore-not-found").exit_code == 0


def test_an_unknown_kind_suggests_the_closest(headgate) -> None:
    """From what this server has."""
    result = headgate.run("get", "modelrotes")
    assert (result.exit_code, result.stderr) == (
        1,
        'Error: the server has no kind "modelrotes"; did you mean modelroutes?\n',
    )


def test_mixed_words_are_usage_errors(headgate) -> None:
    """Exit code 2, as for every command that makes no sense."""
    for words in (["cm", "mr/a"], ["cm,mr", "a"], ["mr/"], ["cm", "a", "-l", "x=y"]):
        assert headgate.run("get", *words).exit_code == 2, words


def test_describe_shows_conditions_and_events(headgate, route) -> None:
    """Metadata, spec in the words of the manifest, the status, what happened."""
    headgate("apply", "-f", "-", stdin=route(labels="{tier: x}"))
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "chat.1"},
        "involvedObject": {
            "kind": "ModelRoute",
            "name": "chat",
            "uid": headgate.object("mr", "chat")["metadata"]["uid"],
        },
        "type": "Warning",
        "reason": "Dangling",
        "message": "no such server",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    headgate("apply", "-f", "-", stdin=json.dumps(event))
    shown = headgate("describe", "mr", "chat")
    assert "Name:         chat\nNamespace:    " in shown
    assert "Labels:       tier=x\n" in shown
    assert "Spec:\n  modelName: chat\n  rules:\n" in shown
    assert shown.rstrip().splitlines()[-1].split()[1:] == ["Warning", "Dangling", "no", "such", "server"]


def test_describe_shows_the_latest_events_last(headgate, config_map) -> None:
    """Twenty of any number, in the order of their times, whatever their names are."""
    headgate("apply", "-f", "-", stdin=config_map)
    about = headgate.object("configmap", "settings")
    for number in range(25):
        made = event(about, headgate.namespace)
        made["metadata"]["name"] = f"settings.{(number * 7) % 25:02d}"
        made |= {"reason": f"Number{number}", "lastTimestamp": f"2026-01-01T00:00:{number:02d}Z"}
        headgate("apply", "-f", "-", stdin=json.dumps(made))
    expected = [f"Number{number}" for number in range(5, 25)]
    lines = headgate("describe", "configmap", "settings").splitlines()
    assert [line.split()[2] for line in lines if "Number" in line] == expected
    (told,) = json.loads(headgate("describe", "configmap", "settings", "-o", "json"))
    assert [each["reason"] for each in told["events"]] == expected


def test_describe_hides_secrets(headgate) -> None:
    """A Secret's content is not for screens."""
    secret = "{apiVersion: v1, kind: Secret, metadata: {name: key}, data: {token: c2VjcmV0}}"
    headgate("apply", "-f", "-", stdin=secret)
    shown = headgate("describe", "secret/key")
    assert "c2VjcmV0" not in shown
    assert "token: (8 characters)" in shown


def test_describe_tells_programs_of_objects_and_events(headgate, config_map) -> None:
    """`-o json`: a list of objects, each with its events; a Secret keeps what it holds."""
    headgate("apply", "-f", "-", stdin=config_map)
    about = headgate.object("configmap", "settings")
    headgate("apply", "-f", "-", stdin=json.dumps(event(about, headgate.namespace)))
    (told,) = json.loads(headgate("describe", "configmap", "settings", "-o", "json"))
    assert told["object"]["metadata"]["name"] == "settings"
    assert "managedFields" not in told["object"]["metadata"]
    assert [event["reason"] for event in told["events"]] == ["Tested"]
    secret = "{apiVersion: v1, kind: Secret, metadata: {name: key}, data: {token: c2VjcmV0}}"
    headgate("apply", "-f", "-", stdin=secret)
    (told,) = json.loads(headgate("describe", "secret", "key", "-o", "json"))
    assert told["object"]["data"] == {"token": "(8 characters)"}


def event(about: dict[str, Any], namespace: str) -> dict[str, Any]:
    kept = {key: about[key] for key in ("apiVersion", "kind")}
    involved = kept | {"name": "settings", "namespace": namespace, "uid": about["metadata"]["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a.1", "namespace": namespace},
        "involvedObject": involved,
        "reason": "Tested",
        "message": "it was",
        "type": "Normal",
    }
