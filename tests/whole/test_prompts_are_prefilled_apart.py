"""The example of prefill and decode, from its manifests to the answer of a client."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.whole


def test_the_page_on_prefill_and_decode(new_machine, eventually):
    """Its commands show a long prompt that is prefilled apart, and a short one that is not."""
    machine = new_machine(ROOT / "examples" / "prefill-decode").start()

    def conditions():
        return machine.kubectl("get", "modelserver", "sim-pd", "-o", "jsonpath={.status.conditions}")

    eventually(lambda: "4 of 4 Pods ready: 2 prefill, 2 decode" in conditions())
    assert "Every field is in use" in conditions()
    page = (ROOT / "docs" / "prefill-decode.md").read_text()
    (block,) = re.findall(r"^```\n(curl .*?)^```$", page, re.MULTILINE | re.DOTALL)
    for written, name in ((8080, "port"), (9090, "metrics-port")):
        block = block.replace(f"127.0.0.1:{written}/", f"127.0.0.1:{machine.ports[name]}/")
    block = block.replace(".headgate/", f"{machine.state}/")

    def shown():
        done = subprocess.run(["bash", "-c", block], capture_output=True, text=True, timeout=180)
        return done.stdout

    output = shown()
    assert output.count('"completion_tokens":5') == 2
    assert 'headgate_gateway_prefill_decisions_total{decision="remote",pool="default/sim-pd"} 1.0' in output
    assert 'headgate_gateway_prefill_decisions_total{decision="short",pool="default/sim-pd"} 1.0' in output
    log = machine.state / "logs" / "gateway.log"
    eventually(lambda: "prefill=short" in log.read_text())
    assert "prefill=remote:default/sim-prefill-" in log.read_text()
