"""A file says which commands run in place of images."""

import pytest
from click.testing import CliRunner

from headgate import api, node
from headgate.cli.node import node as node_command
from headgate.cli.up import up
from headgate.node import claim_links, images, pod_directories

DOCUMENT = {
    "images": [
        {"image": "registry:5000/vllm:v1", "command": ["one"]},
        {"image": "registry:5000/vllm", "command": ["headgate", "simulate"], "args": ["--port", "1"]},
        {"image": "*/tools-*", "command": ["sh", "-c", "echo $GREETING $0"], "env": {"GREETING": "hello"}},
    ]
}


@pytest.mark.parametrize(
    ("image", "program"),
    [
        ("registry:5000/vllm:v1", "one"),
        ("registry:5000/vllm:v2", "headgate"),
        ("registry:5000/vllm@sha256:00", "headgate"),
        ("registry:5000/vllm", "headgate"),
        ("a/b/tools-x:1", "sh"),
        ("registry:5000/vllm2", None),
        ("vllm", None),
        ("", None),
    ],
)
def test_the_first_pattern_that_matches_counts(image, program):
    """A pattern without a tag means all versions; a port is not a tag."""
    found = images.parse(DOCUMENT, "f").find(image)
    assert (found.command[0] if found else None) == program


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({}, ["headgate", "simulate", "--port", "1"]),
        ({"args": ["--model", "m"]}, ["headgate", "simulate", "--model", "m"]),
        ({"command": ["mine"]}, ["mine"]),
        ({"command": ["mine"], "args": ["x"]}, ["mine", "x"]),
    ],
)
def test_a_container_replaces_what_its_image_has(container, words):
    """As in Kubernetes: its arguments replace the image's, its command replaces both."""
    program = images.parse(DOCUMENT, "f").find("registry:5000/vllm")
    assert images.command_of(api.Container(name="c", **container), program) == words


def test_a_program_may_wrap_the_command_of_a_container():
    """It gets command and arguments; without a command, it is as any other."""
    entry = {"image": "vllm", "command": ["headgate", "simulate", "as"], "args": ["vllm"], "wrap": True}
    program = images.parse({"images": [entry]}, "f").find("vllm:v1")
    container = api.Container(name="c", command=["python3", "-m", "vllm"], args=["--port", "1"])
    assert images.command_of(container, program) == [
        *entry["command"],
        "python3",
        "-m",
        "vllm",
        "--port",
        "1",
    ]
    assert images.command_of(api.Container(name="c"), program) == ["headgate", "simulate", "as", "vllm"]
    with pytest.raises(node.ImagesError, match=r"images\[0\].wrap: 1 is not true or false"):
        images.parse({"images": [{**entry, "wrap": 1}]}, "f")


def test_claims_are_directories_of_this_machine(tmp_path):
    """A link in the state of the node, where Pods find it; a directory with data is never replaced."""
    (tmp_path / "weights").mkdir()
    found = images.parse({"claims": [{"claim": "w", "directory": "weights"}]}, str(tmp_path / "images.yaml"))
    assert found.claims == {("default", "w"): tmp_path / "weights"}
    directories = pod_directories.PodDirectories(tmp_path / "node")
    claim_links.link(tmp_path / "node", "default", "w", tmp_path / "weights")
    assert directories.claim("default", "w").resolve() == tmp_path / "weights"
    claim_links.link(tmp_path / "node", "default", "w", tmp_path)
    assert directories.claim("default", "w").resolve() == tmp_path
    own = directories.claim("default", "own")
    with pytest.raises(claim_links.ClaimTakenError, match="move it away"):
        claim_links.link(tmp_path / "node", "default", "own", tmp_path)
    assert own.is_dir()
    assert not own.is_symlink()


def test_all_errors_are_told_at_once(tmp_path):
    """The command line names the file, the field and the value of each."""
    file = tmp_path / "images.yaml"
    file.write_text(
        "images:\n- {image: a, command: [x, 1], args: x, env: {N: 1}}\n"
        "- {image: '', cmd: []}\n- b\n"
        "- {image: c, command: [x]}\n- {image: c, command: [y]}\nother: 1\n"
        "claims: [{claim: a}, {claim: A, directory: .}, {claim: a, directory: ./none}]\n"
    )
    done = CliRunner().invoke(node_command, ["--images", str(file)])
    assert done.exit_code == 2
    for problem in (
        "images[0].command[1]: 1 is not a text; put it in quotes",
        "images[0].args: must be a list",
        "images[0].env.N: 1 is not a text; put it in quotes",
        "images[1].image: must be a pattern",
        "images[1].cmd: unknown field",
        "images[1].command: must be a list",
        "images[2]: must be a mapping",
        "images: 'c' has two entries",
        "other: unknown field",
        "claims[0]: must be a mapping with `claim` and `directory`",
        "claims[1].claim: 'A' is no name of a claim",
        f"claims[2].directory: {tmp_path}/none is not a directory",
    ):
        assert f"{file}: {problem}" in done.output


@pytest.mark.parametrize("command", [node_command, up])
@pytest.mark.parametrize("text", ["[", "images: {}", "", "\0"])
def test_another_file_is_refused(tmp_path, text, command):
    file = tmp_path / "images.yaml"
    file.write_text(text)
    done = CliRunner().invoke(command, ["--images", str(file)])
    assert done.exit_code == 2
    assert str(file) in done.output


async def test_an_image_runs_as_its_command(machine, pod_manifest):
    """With the image's variables; one that is not in the file is told, with the file and the flag."""
    given = node.ImagePrograms(images.parse(DOCUMENT, "f").programs, "/etc/images.yaml")
    async with machine.node(images=given):
        container = {"image": "my/tools-1:latest", "command": [], "args": ["world"]}
        await machine.client.create_manifest(pod_manifest("one", container=container))
        assert await machine.log() == "hello world\n"
        other = {"image": "other:1", "command": []}
        await machine.client.create_manifest(pod_manifest("two", container=other))
        messages = await machine.events("Failed")
        assert "container 'main' has no command, and images are not pulled" in messages[0]
        assert "add an entry that matches 'other:1' to /etc/images.yaml, the file of --images" in messages[0]
