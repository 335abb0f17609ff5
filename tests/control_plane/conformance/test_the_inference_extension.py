"""The upstream conformance suite of the Gateway API Inference Extension (C1 to C14), with the picker of the
suite."""

from conforming import conforms, echo_server, suite_directory

INFRASTRUCTURE = "inference-conformance-infra"
"""Namespace of the suite's Gateways, in which it waits for Pods of their implementation."""


def test_all_of_the_profile_gateway_conforms(site):
    """Pools behind Gateways, with upstream's picker asked over ext_proc."""
    suite = suite_directory("gateway-suites")
    images = [echo_server(suite), {"image": "*/lwepp", "command": [str(suite / "lwepp")]}]
    definitions = [suite / "gateway-api-definitions", suite / "inference-extension-definitions"]
    made = site(definitions, images, INFRASTRUCTURE)
    report = made.run_suite(suite / "inference-extension.test", "inference-extension.yaml", limit_s=2400)
    conforms(report)
