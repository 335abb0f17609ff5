"""Termination messages: the file of a container, or the end of its log, in its status."""

import pytest

from headgate.node import last_words
from headgate.node.mounts import Mounting


@pytest.fixture(params=[None, Mounting.SUBSTITUTION])
def mounting(request):
    """The best way of this machine, and the one that needs nothing."""
    return request.param


async def ended(machine, manifest) -> dict:
    await machine.client.create_manifest(manifest)
    name = manifest["metadata"]["name"]
    await machine.until(
        lambda pods: any(p.metadata.name == name and p.status.phase in ("Succeeded", "Failed") for p in pods)
    )
    return (await machine.pod(name)).status.container_statuses[0].state.terminated


async def test_a_file_is_the_message(machine, pod_manifest, mounting):
    """At the usual path or another one, with volumes or without; of the newest run alone."""
    volumes = [{"name": "d", "emptyDir": {}}]
    other = {"terminationMessagePath": "/none/why"}
    mount = {"volumeMounts": [{"name": "d", "mountPath": "/none/d"}]}
    cases = [("/dev/termination-log", {}), ("/dev/termination-log", mount), ("/none/why", other)]
    async with machine.node(mounting=mounting):
        for index, (path, fields) in enumerate(cases):
            container = {"command": ["sh", "-c", f"echo 'no memory' > {path}; exit 3"], **fields}
            manifest = pod_manifest(f"p{index}", container=container, volumes=volumes, restartPolicy="Never")
            state = await ended(machine, manifest)
            assert (state.exit_code, state.reason, state.message) == (3, "Error", "no memory\n")


async def test_the_log_is_the_message_of_a_failure(machine, pod_manifest):
    """Only if the manifest says so, and only of a container that fails."""
    policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    async with machine.node():
        for name, code, fields, expected in (
            ("a", 3, policy, "one\ntwo"),
            ("b", 0, policy, ""),
            ("c", 3, {}, ""),
        ):
            container = {"command": ["sh", "-c", f"echo one; echo two; exit {code}"], **fields}
            state = await ended(machine, pod_manifest(name, container=container, restartPolicy="Never"))
            assert state.message == expected


def test_messages_are_bounded(tmp_path):
    """As in Kubernetes: 4 KB of a file, 2 KB or 80 lines of a log."""
    file = tmp_path / "f"
    file.write_bytes(b"x" * 9000 + b"end")
    assert (len(last_words.of_file(file)), last_words.of_file(file)[-3:]) == (last_words.MAX_BYTES, "end")
    file.write_bytes(b"2026-01-01T00:00:00Z ab\n" * 200)
    assert last_words.of_log(file) == "\n".join(["ab"] * last_words.MAX_LOG_LINES)
    file.write_bytes(b"2026-01-01T00:00:00Z " + b"y" * 5000 + b"\n")
    assert last_words.of_log(file) == "y" * last_words.MAX_LOG_BYTES
    assert last_words.of_log(tmp_path / "none") == last_words.of_file(tmp_path / "none") == ""
