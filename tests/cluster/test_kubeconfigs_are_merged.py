"""Several kubeconfigs as one: the first to say something counts, as with kubectl."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from lightkube.core.exceptions import ConfigError

from headgate.cluster import kubeconfig


def write(file: Path, content: dict[str, Any]) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(yaml.safe_dump(content))
    return file


def cluster(name: str, **content: str) -> dict[str, Any]:
    return {"name": name, "cluster": content}


def context(name: str, cluster: str, user: str = "") -> dict[str, Any]:
    return {"name": name, "context": {"cluster": cluster} | ({"user": user} if user else {})}


def test_the_first_to_name_something_counts(tmp_path: Path) -> None:
    """Contexts and clusters of all files, entries of a name from the first, its current-context."""
    first = write(
        tmp_path / "first",
        {"current-context": "near", "clusters": [cluster("c", server="http://first")], "users": None},
    )
    second = write(
        tmp_path / "second",
        {
            "current-context": "far",
            "clusters": [cluster("c", server="http://second"), cluster("d", server="http://other")],
            "contexts": [context("near", "c"), context("far", "d")],
        },
    )
    files = [first, tmp_path / "absent", second]
    assert kubeconfig.chosen(files, None).cluster.server == "http://first"
    assert kubeconfig.chosen(files, "far").cluster.server == "http://other"


def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    """Also in the second file; a plugin without a slash is looked for on the PATH."""
    first = write(tmp_path / "a" / "config", {"clusters": [cluster("c", **{"certificate-authority": "ca"})]})
    users = [
        {"name": "u", "user": {"client-key": "key", "exec": {"apiVersion": "v1", "command": "./plugin"}}},
        {"name": "v", "user": {"exec": {"apiVersion": "v1", "command": "plugin"}}},
    ]
    contexts = [context("x", "c", "u"), context("y", "c", "v")]
    second = write(tmp_path / "b" / "config", {"users": users, "contexts": contexts, "current-context": "x"})
    found = kubeconfig.chosen([first, second], None)
    assert found.cluster.certificate_auth == str(tmp_path / "a" / "ca")
    assert found.user
    assert found.user.exec
    assert found.user.client_key == str(tmp_path / "b" / "key")
    assert Path(found.user.exec.command) == tmp_path / "b" / "plugin"
    other = kubeconfig.chosen([first, second], "y").user
    assert other
    assert other.exec
    assert other.exec.command == "plugin"


@pytest.mark.parametrize(
    ("content", "context", "told"),
    [
        ({}, None, "no current-context is set in {file}; contexts: none"),
        ({"contexts": [context("a", "c")]}, None, "no current-context is set in {file}; contexts: a"),
        ({"contexts": [context("a", "c")]}, "b", 'there is no context "b" in {file}; contexts: a'),
        ({"contexts": [context("a", "c")]}, "a", 'the context "a" names the cluster "c", which is not in'),
        (
            {"contexts": [context("a", "c", "u")], "clusters": [cluster("c")]},
            "a",
            'the context "a" names the user "u", which is not in {file}',
        ),
        ({"contexts": [context("a", "")]}, "a", 'the context "a" in {file} names no cluster'),
        ({"clusters": [{"cluster": {}}]}, None, "{file} is no kubeconfig: clusters[0] needs a name and a cl"),
        ({"clusters": {}, "users": "x"}, None, "{file} is no kubeconfig: users is not a list"),
        ([1], None, "{file} is no kubeconfig: it is a list, not a mapping"),
    ],
)
def test_what_is_wrong_is_told_with_its_file(tmp_path: Path, content: Any, context: str, told: str) -> None:
    """And what there would be."""
    file = write(tmp_path / "config", content)
    with pytest.raises(ConfigError) as error:
        kubeconfig.chosen([file], context)
    assert str(error.value).startswith(told.format(file=file))


@pytest.mark.parametrize("content", ["[", "a: !!bool x", "!!timestamp x", "\0", "[" * 5000])
def test_what_is_no_yaml_is_told_with_its_file(tmp_path: Path, content: str) -> None:
    """Whatever the loader makes of it."""
    file = tmp_path / "config"
    file.write_text(content)
    with pytest.raises(ConfigError, match=f"{file} cannot be read as a kubeconfig"):
        kubeconfig.chosen([file], None)
