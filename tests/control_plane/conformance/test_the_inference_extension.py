"""The upstream conformance suite of the Gateway API Inference Extension (C1 to C14), with the picker of the
suite."""

from conforming import conforms, echo_server, suite_directory

from headgate.api import gie_v1


def test_all_of_the_profile_gateway_conforms(site):
    """Pools behind Gateways, with upstream's picker asked over ext_proc."""
    suite = suite_directory("gateway-suites")
    images = [echo_server(suite), {"image": "*/lwepp", "command": [str(suite / "lwepp")]}]
    made = site([suite / "gateway-api-definitions", suite / "inference-extension-definitions"], images)
    assert made.cluster.get("crd", f"{gie_v1.InferencePool.resource.qualified_name}")
    report = made.run_suite(suite / "inference-extension.test", "inference-extension.yaml", limit_s=2400)
    conforms(report)
