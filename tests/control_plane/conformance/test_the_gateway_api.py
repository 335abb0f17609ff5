"""The upstream conformance suite of the Gateway API, with its own echo server."""

import pytest
from conforming import STATIC, UNUSABLE, conforms, echo_server, suite_directory


@pytest.mark.timeout(3200)
def test_core_and_all_claimed_features_conform(site):
    """Profile GATEWAY-HTTP: the features that the GatewayClass lists are tested, and none fails."""
    suite = suite_directory("gateway-suites")
    sleeping = {"image": "*coredns", "command": ["sh", "-c", "exec sleep 100000", "coredns"]}
    made = site([suite / "gateway-api-definitions"], [echo_server(suite), sleeping], "headgate")
    report = made.run_suite(
        suite / "gateway-api.test",
        "gateway-api.yaml",
        "-conformance-profiles=GATEWAY-HTTP",
        f"-usable-address={STATIC}",
        f"-unusable-address={UNUSABLE}",
        limit_s=3000,
    )
    conforms(report)
