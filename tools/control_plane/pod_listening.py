"""Programs that listen on all addresses, compiled so that several run on one machine, at their own addresses.

In a cluster, each Pod has a network of its own, so programs listen on `:3000`. Pods of a process node share
the network of the machine. Of the standard library, two functions are compiled in another form, by an overlay
of `go build`: a program that would listen on all addresses listens on `$POD_IP` instead, if that is set. The
source of the program stays as it is.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from programs import ControlPlaneError

FILE = "src/net/dial.go"
ADDED = "src/net/pod_address.go"
LISTENING = (
    r"(func \(lc \*ListenConfig\) Listen(?:Packet)?\(ctx context\.Context, network, address string\) .*\{\n)"
)
"""The first line of the functions by which everything of the standard library listens."""
CALL = "\taddress = podAddress(network, address)\n"
FUNCTION = """package net

import "syscall"

// podAddress returns the address to listen on: that of the Pod in place of all addresses.
func podAddress(network, address string) string {
	pod, found := syscall.Getenv("POD_IP")
	if !found || pod == "" || len(network) < 3 || (network[:3] != "tcp" && network[:3] != "udp") {
		return address
	}
	host, port, err := SplitHostPort(address)
	if err != nil || (host != "" && host != "0.0.0.0" && host != "::") {
		return address
	}
	return JoinHostPort(pod, port)
}
"""


def overlay(go_root: Path, into: Path) -> Path:
    """Writes the changed files into a directory; returns the file for `go build -overlay`."""
    source = (go_root / FILE).read_text()
    changed, found = re.subn(LISTENING, rf"\1{CALL}", source)
    if found != 2:
        raise ControlPlaneError(
            f"{go_root / FILE} is not as expected: {found} functions listen, not 2. Use the Go version that "
            "the documentation names."
        )
    into.mkdir(exist_ok=True)
    dial, added = into / "dial.go", into / "pod_address.go"
    dial.write_text(changed)
    added.write_text(FUNCTION)
    replaced = {str(go_root / FILE): str(dial), str(go_root / ADDED): str(added)}
    file = into / "overlay.json"
    file.write_text(json.dumps({"Replace": replaced}))
    return file
