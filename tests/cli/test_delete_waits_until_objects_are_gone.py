"""`headgate delete`: by name, by selector, by manifests; waits until what goes is gone."""

import json


def test_by_name_and_by_manifest(headgate, route, config_map) -> None:
    """In kubectl's words; afterwards the objects are not there."""
    headgate("apply", "-f", "-", stdin=route() + config_map)
    assert headgate("delete", "mr", "chat") == 'modelroute.networking.volcano.sh "chat" deleted\n'
    assert headgate("delete", "-f", "-", stdin=config_map) == 'configmap "settings" deleted\n'
    assert headgate.run("get", "mr/chat", "cm/settings").exit_code == 1


def test_by_selector_or_all_of_them(headgate, route) -> None:
    """Nothing is deleted by a kind alone."""
    headgate("apply", "-f", "-", stdin=route("a", labels="{tier: z}") + route("b") + route("c"))
    assert headgate.run("delete", "mr").exit_code == 2
    assert headgate("delete", "mr", "-l", "tier=z", "-o", "name") == "modelroute.networking.volcano.sh/a\n"
    assert len(headgate("delete", "mr", "--all").splitlines()) == 2


def test_what_is_not_there_is_an_error_unless_told_otherwise(headgate, config_map) -> None:
    """Exit code 1, and the place of the manifest."""
    result = headgate.run("delete", "-f", "-", stdin=config_map)
    assert result.exit_code == 1
    assert result.stderr == 'Error: <stdin>:2: from the server (NotFound): configmaps "settings" not found\n'
    assert headgate("delete", "cm", "settings", "--ignore-not-found") == ""


def test_a_finalizer_is_waited_for_no_longer_than_asked(headgate, config_map) -> None:
    """The message says what may hold an object."""
    held = config_map.replace("name: settings", "name: settings, finalizers: [example.com/hold]")
    headgate("apply", "-f", "-", stdin=held)
    result = headgate.run("delete", "cm", "settings", "--timeout", "0.3")
    assert result.exit_code == 1
    assert result.stdout == 'configmap "settings" deleted\n'
    assert 'timed out waiting for configmap "settings" to be deleted' in result.stderr
    assert headgate.run("delete", "cm", "settings", "--no-wait").exit_code == 0


def test_a_dry_run_deletes_nothing(headgate, config_map) -> None:
    """It says what would go."""
    headgate("apply", "-f", "-", stdin=config_map)
    assert (
        headgate("delete", "--dry-run", "cm", "settings") == 'configmap "settings" deleted (server dry run)\n'
    )
    assert headgate("get", "cm", "-o", "name") == "configmap/settings\n"


def test_either_words_or_files(headgate, config_map) -> None:
    """Both or neither is a usage error."""
    assert headgate.run("delete").exit_code == 2
    assert headgate.run("delete", "cm", "settings", "-f", "-", stdin=config_map).exit_code == 2


def test_programs_are_told_what_goes(headgate, config_map) -> None:
    """`-o json`: one list, with the namespace and the uid of each."""
    headgate("apply", "-f", "-", stdin=config_map)
    uid = headgate.object("configmap", "settings")["metadata"]["uid"]
    told = json.loads(headgate("delete", "configmap", "settings", "-o", "json"))
    place = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": headgate.namespace}
    assert told == [{**place, "name": "settings", "uid": uid}]
    result = headgate.run("delete", "configmap", "none", "-o", "json")
    assert (result.exit_code, result.stdout) == (1, "[]\n")
