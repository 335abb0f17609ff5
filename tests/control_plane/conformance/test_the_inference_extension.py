"""The upstream conformance suite of the Gateway API Inference Extension (C1 to C14), once with its own picker
and once with Headgate's in its place."""

import pytest
from conforming import conforms, echo_server, suite_directory

INFRASTRUCTURE = "inference-conformance-infra"
"""Namespace of the suite's Gateways, in which it waits for Pods of their implementation."""
OWN = 'exec headgate picker --conformance-headers --host "$POD_IP" "$@"'
"""In place of the suite's picker, with the arguments of its containers."""
REPORTS = {"upstream": "inference-extension.yaml", "headgate": "inference-extension-own-picker.yaml"}


@pytest.mark.timeout(2600)
@pytest.mark.parametrize("picker", [*REPORTS])
def test_all_of_the_profile_gateway_conforms(site, picker):
    """Pools behind Gateways; the gateway asks the picker over ext_proc, with TLS."""
    suite = suite_directory("gateway-suites")
    command = {"upstream": [str(suite / "lwepp")], "headgate": ["sh", "-c", OWN, "picker"]}[picker]
    images = [echo_server(suite), {"image": "*/lwepp", "command": command}]
    definitions = [suite / "gateway-api-definitions", suite / "inference-extension-definitions"]
    made = site(definitions, images, INFRASTRUCTURE)
    conforms(made.run_suite(suite / "inference-extension.test", REPORTS[picker], limit_s=2400))
