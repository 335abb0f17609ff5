"""Kthena's scheduler configuration means here what its router makes of it, and what is skipped is said."""

import yaml

from headgate.scheduling import configuration

THREE = (("least-request", 1.0), ("least-latency", 1.0), ("prefix-cache", 1.0))


def read(text: str) -> configuration.Reading:
    return configuration.read(yaml.safe_load(text))


def profile(text: str):
    reading = read(text)
    assert reading.plan is not None, reading.problems
    return reading.plan.profiles["default"]


def warnings(text: str) -> list[str]:
    return [each.message for each in read(text).problems if each.severity == "warning"]


def test_without_a_configuration_there_are_the_defaults():
    """Filter least-request; scores least-request, least-latency and prefix-cache, each 1."""
    made = profile("scheduler:\n")
    assert (made.filters, made.scorers) == (("least-request",), THREE)


def test_the_charts_configuration():
    """Arguments, gpu-usage besides the defaults, lora-affinity disabled."""
    text = """
scheduler:
  pluginConfig:
  - {name: least-request, args: {maxWaitingRequests: 10}}
  - {name: least-latency, args: {TTFTTPOTWeightFactor: 0.5}}
  - {name: prefix-cache, args: {blockSizeToHash: 64, maxBlocksToMatch: 128, maxHashCacheSize: 50000}}
  plugins:
    Filter: {enabled: [least-request], disabled: [lora-affinity]}
    Score:
      enabled:
      - {name: least-request, weight: 1}
      - {name: kvcache-aware, weight: 3}
      - {name: gpu-usage, weight: 1}
"""
    made = profile(text)
    assert made.scorers == (("least-request", 1), ("kvcache-aware", 3), ("gpu-usage", 1))
    assert warnings(text) == []


def test_what_the_router_skips_is_skipped_and_said():
    """Unknown plugins, filters that are none, weights below 0, random beside others, what is disabled too."""
    text = """
scheduler:
  pluginConfig: [{name: least-reqest}]
  plugins:
    Filter: {enabled: [lora-afinity, gpu-usage]}
    Score:
      enabled:
      - {name: least-request, weight: -5}
      - {name: random, weight: 1}
      - {name: gpu-usage}
      - {name: prefix-cache}
      disabled: [prefix-cache]
"""
    made = profile(text)
    assert made.filters == ()
    assert made.scorers == (("least-request", 0.0), ("gpu-usage", 1.0))
    assert warnings(text) == [
        "no plugin is called least-reqest: it is skipped",
        "no plugin is called lora-afinity: it is skipped",
        "gpu-usage is not a filter, and is skipped",
        "prefix-cache is disabled as well, and is left out",
        "random beside other scorers means nothing, and is left out",
        "the weight -5 counts as 0",
    ]


def test_older_files_are_bare():
    """The same, without a key above it; what is wrong has the path that it has there."""
    text = """
pluginConfig: [{name: least-request, args: {maxWaitingRequests: 3}}]
plugins:
  Filter: {enabled: [least-request]}
  Score: {enabled: [{name: least-request}, {name: kv-cache}]}
"""
    assert profile(text).scorers == (("least-request", 1),)
    assert [each.path for each in read(text).problems] == ["plugins.Score.enabled[1].name"]
    assert read("plugins: {Scores: {}}\n").plan is None


def test_random_alone_is_kept():
    """It is the one scorer."""
    assert profile("scheduler: {plugins: {Score: {enabled: [{name: random}]}}}\n").scorers == (("random", 1),)


def test_unknown_fields_are_errors():
    """Strict, as the endpoint picker's is."""
    reading = read("scheduler: {plugins: {Filters: {enabled: []}}, pluginConfigs: []}\nauht: {}\n")
    assert reading.plan is None
    assert {each.path for each in reading.problems if each.severity == "error"} == {
        "scheduler.plugins.Filters",
        "scheduler.pluginConfigs",
        "auht",
    }
