"""The upstream conformance suite of the Gateway API, with its own echo server."""

from conforming import suite_directory


def test_core_and_all_claimed_features_conform(site):
    """Profile GATEWAY-HTTP: the features that the GatewayClass lists are tested, and none fails."""
    suite = suite_directory("gateway-suites")
    images = [
        {"image": "*/echo-basic", "command": [str(suite / "echo-basic")]},
        {"image": "*coredns", "command": ["sh", "-c", "exec sleep 100000", "coredns"]},
    ]
    made = site([suite / "gateway-api-definitions"], images)
    report = made.run_suite(
        suite / "gateway-api.test",
        "gateway-api.yaml",
        "-conformance-profiles=GATEWAY-HTTP",
        limit_s=3000,
    )
    [profile] = report["profiles"]
    assert profile["core"]["statistics"]["Failed"] == 0, profile["core"]
    assert profile.get("extended", {}).get("statistics", {}).get("Failed", 0) == 0, profile["extended"]
