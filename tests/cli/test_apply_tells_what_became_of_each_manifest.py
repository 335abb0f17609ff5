"""`headgate apply` creates and changes objects, tries all, and shows refusals at their lines."""

import json
import subprocess
import sys
from pathlib import Path


def test_created_configured_unchanged(headgate, route) -> None:
    """One word for each object says whether something happened."""
    name = "modelroute.networking.volcano.sh/chat"
    assert headgate("apply", "-f", "-", stdin=route()) == f"{name} created\n"
    assert headgate("apply", "-f", "-", stdin=route()) == f"{name} unchanged\n"
    assert headgate("apply", "-f", "-", stdin=route(weight=5)) == f"{name} configured\n"
    target = headgate.object("mr", "chat")["spec"]["rules"][0]["targetModels"][0]
    assert target == {"modelServerName": "chat", "weight": 5}


def test_a_dry_run_stores_nothing(headgate, route) -> None:
    """The server checks everything, says what it would do, and forgets it."""
    done = headgate("apply", "--dry-run", "-f", "-", stdin=route())
    assert done == "modelroute.networking.volcano.sh/chat created (server dry run)\n"
    assert headgate.run("get", "mr", "chat").exit_code == 1


def test_all_are_tried_and_refusals_stand_at_their_lines(headgate, route, config_map, tmp_path: Path) -> None:
    """A refused object stops no other; the exit code tells that there was one."""
    file = tmp_path / "two.yaml"
    file.write_text(route("a", weight=101) + route("b").replace("modelServerName", "serverName") + config_map)
    result = headgate.run("apply", "-f", str(file))
    assert result.exit_code == 1
    assert result.stdout == "configmap/settings created\n"
    of = f"ModelRoute {headgate.namespace}"
    assert result.stderr.splitlines() == [
        f"{file}:10:15: error: {of}/a: spec.rules[0].targetModels[0].weight: "
        "Invalid value: 101: should be less than or equal to 100",
        f"{file}:19:7: error: {of}/b: spec.rules[0].targetModels[0].serverName: unknown field; "
        "did you mean modelServerName?",
    ]


def test_refusals_of_an_object_come_in_the_order_of_its_lines(headgate, route) -> None:
    """Whichever the server finds first."""
    policy = "  rateLimit: {unit: fortnight, inputTokensPerUnit: 0}\n"
    manifest = route(weight=101).replace("spec:\n", f"spec:\n{policy}")
    told = headgate.run("apply", "-f", "-", stdin=manifest).stderr.splitlines()
    places = [tuple(map(int, line.split(":")[1:3])) for line in told]
    assert len(places) == 3
    assert places == sorted(places)


def test_an_object_is_applied_without_what_judges_all_kinds() -> None:
    """Importing that, and the terminal tools of the CEL package, took most of the command's CPU time."""
    program = (
        "import sys; from headgate.cli.objects import commands, connecting, sending; "
        "unneeded = {'headgate.apiserver', 'headgate.cli.validation.judging', 'prompt_toolkit'}; "
        "print(*sorted(unneeded & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "\n"


def test_what_the_server_could_not_read_is_told_by_field(headgate, route) -> None:
    """It says that it got a truth value somewhere in the labels; the place and the remedy are known here."""
    result = headgate.run("apply", "-f", "-", stdin=route(labels="{tier: y}"))
    assert result.stderr == (
        f"<stdin>:4:39: error: ModelRoute {headgate.namespace}/chat: metadata.labels.tier: "
        'must be of type string, not boolean; put it in quotes: "y"\n'
    )


def test_warnings_stand_at_their_lines(headgate, route) -> None:
    """What the server warns of is no refusal."""
    result = headgate.run("apply", "-f", "-", stdin=route())
    assert result.exit_code == 0
    assert result.stderr.startswith(
        f"<stdin>:9:24: warning: ModelRoute {headgate.namespace}/chat: "
        "spec.rules[0].targetModels[0].modelServerName: there is no ModelServer "
    )


def test_fields_of_others_are_taken_over_only_by_force(headgate, route) -> None:
    """A conflict names the manager and the way out."""
    headgate("apply", "--field-manager", "somebody", "-f", "-", stdin=route(weight=5))
    result = headgate.run("apply", "-f", "-", stdin=route(weight=6))
    assert result.exit_code == 1
    assert 'conflict with "somebody": ' in result.stderr
    assert result.stderr.endswith("or take them over with --force-conflicts\n")
    assert headgate("apply", "--force-conflicts", "-f", "-", stdin=route(weight=6)).endswith(" configured\n")


def test_what_headgate_up_applied_is_taken_over_without_asking(headgate, route) -> None:
    """Both write what the same person's files say."""
    headgate("apply", "--field-manager", "headgate-up", "-f", "-", stdin=route(weight=5))
    assert headgate("apply", "-f", "-", stdin=route(weight=6)).endswith("/chat configured\n")


def test_an_unknown_kind_is_refused_with_the_closest_one(headgate, route) -> None:
    """At the line of the kind."""
    result = headgate.run("apply", "-f", "-", stdin=route().replace("kind: ModelRoute", "kind: ModelRout"))
    assert result.exit_code == 1
    assert result.stderr == (
        f"<stdin>:3:7: error: ModelRout {headgate.namespace}/chat: kind: the server has no kind ModelRout of "
        "networking.volcano.sh/v1alpha1; did you mean ModelRoute?\n"
    )


def test_another_namespace_than_asked_for_is_refused(headgate, config_map) -> None:
    """As kubectl does: --namespace is a promise where things go."""
    result = headgate.run(
        "apply", "-f", "-", stdin=config_map.replace("name: settings", "name: s, namespace: other")
    )
    assert result.exit_code == 1
    assert "the manifest is in namespace other, but --namespace is" in result.stderr


def test_a_definition_and_its_objects_are_applied_in_one_go(headgate) -> None:
    """Definitions go first, whatever the order of the file."""
    group = f"{headgate.namespace}.example"
    frob = f"apiVersion: {group}/v1\nkind: Frob\nmetadata: {{name: x}}\n"
    definition = (
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
        f"metadata: {{name: frobs.{group}}}\nspec:\n  group: {group}\n  scope: Namespaced\n"
        "  names: {kind: Frob, plural: frobs, singular: frob}\n  versions:\n  - name: v1\n    served: true\n"
        "    storage: true\n    schema: {openAPIV3Schema: {type: object}}\n"
    )
    assert headgate("apply", "-o", "name", "-f", "-", stdin=f"{frob}---\n{definition}").splitlines() == [
        f"customresourcedefinition.apiextensions.k8s.io/frobs.{group}",
        f"frob.{group}/x",
    ]


def test_objects_are_printed_when_asked(headgate, config_map) -> None:
    """JSON of one is the object itself, of several a List."""
    one = json.loads(headgate("apply", "-o", "json", "-f", "-", stdin=config_map))
    assert (one["kind"], one["data"]) == ("ConfigMap", {"a": "b"})
    assert "managedFields" not in one["metadata"]
    two = headgate(
        "apply", "-o", "json", "-f", "-", stdin=config_map + config_map.replace("settings", "more")
    )
    assert [each["metadata"]["name"] for each in json.loads(two)["items"]] == ["settings", "more"]


def test_mistakes_in_files_are_told_before_anything_is_sent(headgate, config_map) -> None:
    """Nothing is applied from files of which a part cannot be read."""
    result = headgate.run("apply", "-f", "-", stdin=f"{config_map}---\na: [\n")
    assert result.exit_code == 1
    assert "<stdin>:5:1: not YAML" in result.stderr
    assert headgate.run("get", "cm", "settings").exit_code == 1
