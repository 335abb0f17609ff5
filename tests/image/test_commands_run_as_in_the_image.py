"""Commands run in the container image: as its user, in its environment, on a read-only file system."""

import re


def test_the_version_is_printed(start):
    container = start("version")
    assert container.process.wait(60) == 0, container.output()
    assert container.output().startswith("Headgate ")


def test_processes_have_no_rights(start, image, gateway):
    """Nor have those of the health check."""
    container = start("simulate", "engine", "--port=0", memory_bytes=gateway.memory_bytes)
    container.until_logged("on http")
    uid, gid = image.user.split(":")
    assert gateway.security == {
        "runAsNonRoot": True,
        "runAsUser": int(uid),
        "runAsGroup": int(gid),
        "seccompProfile": {"type": "RuntimeDefault"},
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    for process in ("1", "self"):
        status = container.run("cat", f"/proc/{process}/status").stdout
        found = dict(re.findall(r"^(\w+):\t(.*)$", status, re.M))
        assert set(found["Uid"].split()) == {uid}
        assert set(found["Gid"].split()) == {gid}
        assert {found[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
        assert found["NoNewPrivs"] == "1"
    assert str(gateway.memory_bytes) in container.run("cat", "/proc/1/limits").stdout
    for place in ("/", "/tmp", "/etc", "/opt/headgate", image.directory, "/dev"):
        assert container.run("touch", f"{place}/written").returncode != 0, place
