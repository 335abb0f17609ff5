"""A pool's endpoints are picked by the scheduler configuration, its own annotation, or the default."""

import logging
import random

import pytest
import yaml

from headgate import scheduling
from headgate.api import ObjectRef
from headgate.fleet import EngineReading
from headgate.gateway import explaining, gauges, pages

POOL = ObjectRef("ModelServer", "default", "pool")
HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"

FAILING = """
from headgate.scheduling import plugins


class Failing(plugins.Scorer):
    def scores(self, cycle, loads):
        raise RuntimeError("no idea")
"""

DROPPED = ("x-headgate-dropped-reason", "x-llm-d-request-dropped-reason")


def configured(text: str, **others: object) -> dict[str, object]:
    return {
        "scheduling_content": yaml.safe_load(HEAD + text),
        "scheduling_allow_experimental_plugins": True,
        **others,
    }


def busy(gateway, *waiting: int) -> None:
    """Engines that say how many requests wait."""
    loads = gateway.shell.plane.pools[POOL].loads
    for load, count in zip(loads, waiting, strict=True):
        load.read(EngineReading(at=gateway.shell.now(), waiting=count, kv_usage=0.5))


async def test_scores_of_the_configuration_decide(start_gateway, start_endpoint):
    """The shortest queue is picked, and the decision says by which scores."""
    endpoints = [await start_endpoint(b"a"), await start_endpoint(b"b")]
    settings = configured("plugins: [{type: queue-scorer}, {type: kv-cache-utilization-scorer}]\n")
    gateway = await start_gateway(*endpoints, settings=settings)
    busy(gateway, 5, 3)
    assert (await gateway.ask()).body == b"b"
    busy(gateway, 2, 3)
    assert (await gateway.ask()).body == b"a"


async def test_a_burst_does_not_herd_between_two_readings(start_gateway, start_endpoint, eventually):
    """Eight requests at once on two idle engines: four for each, though their figures stay as they are."""
    endpoints = [await start_endpoint(), await start_endpoint()]
    settings = configured("plugins: [{type: queue-scorer}]\n")
    gateway = await start_gateway(*endpoints, settings=settings)
    busy(gateway, 0, 0)
    clients = [await gateway.connect() for _ in range(8)]
    for client in clients:
        client.post()
    await eventually(lambda: [len(each.calls) for each in endpoints] == [4, 4])
    for each in endpoints:
        for call in each.calls:
            call.answer()
    for client in clients:
        assert (await client.response()).status == 200


async def test_busy_endpoints_are_refused_as_such(start_gateway, start_endpoint):
    """A4 in the gateway: 429 with Retry-After, and no endpoint was asked."""
    endpoint = await start_endpoint(b"a")
    settings = configured("plugins: [{type: decision-tree}, {type: random-picker}]\n")
    gateway = await start_gateway(endpoint, settings=settings)
    busy(gateway, 6)
    refused = await gateway.ask()
    assert (refused.status, refused.header("retry-after")) == (429, "1")
    assert refused.json["error"] == {
        "message": "the scheduling policy of ModelServer default/pool picks no endpoint: "
        "decision-tree leaves none of its endpoints",
        "type": "rate_limit_error",
        "param": None,
        "code": "pool_saturated",
    }
    assert [refused.header(name) for name in DROPPED] == ["rejected-saturated"] * 2
    assert endpoint.calls == []
    busy(gateway, 5)
    assert (await gateway.ask()).status == 200


async def test_where_no_endpoint_is_suited_the_answer_says_so(start_gateway, start_endpoint):
    """A label that no Pod has: 503, which no waiting helps."""
    settings = configured(
        "plugins: [{type: label-selector-filter, name: by-gpu, parameters: {matchLabels: {gpu: h100}}}]\n"
    )
    gateway = await start_gateway(await start_endpoint(b"a"), settings=settings)
    refused = await gateway.ask()
    assert (refused.status, refused.json["error"]["code"]) == (503, "no_suited_endpoint")
    assert [refused.header(name) for name in DROPPED] == ["rejected-no-endpoints"] * 2
    assert "by-gpu leaves none" in refused.json["error"]["message"]


async def test_a_new_configuration_is_taken_up(start_gateway, start_endpoint):
    """Pools get new policies; while it is the same, they keep theirs, whatever else changes."""
    endpoints = [await start_endpoint(b"a"), await start_endpoint(b"b")]
    gateway = await start_gateway(*endpoints, settings={"scheduling_policy": "round-robin"})
    first = gateway.shell.plane.pools[POOL].policy
    assert [(await gateway.ask()).body for _ in range(4)] == [b"a", b"b", b"a", b"b"]
    before = gateway.shell.settings
    gateway.serve(endpoints)
    gateway.shell.change(type(before)().replace(scheduling_policy="round-robin", endpoints_retries=7))
    assert gateway.shell.plane.pools[POOL].policy is first
    gateway.shell.change(type(before)().replace(**configured("plugins: [{type: queue-scorer}]\n")))
    busy(gateway, 5, 3)
    assert (await gateway.ask()).body == b"b"
    shown = pages.describe(gateway.shell)["scheduling"]
    assert shown["default"] == "configuration"
    assert shown["pools"] == {"default/pool": {"policy": "default"}}
    assert shown["configuration"]["profiles"][0]["scorers"] == [{"name": "queue-scorer", "weight": 1.0}]


PROFILES = """
plugins: [{type: queue-scorer}, {type: kv-cache-utilization-scorer}, {type: disagg-profile-handler}]
schedulingProfiles:
- {name: decode, plugins: [{pluginRef: queue-scorer}]}
- {name: other, plugins: [{pluginRef: kv-cache-utilization-scorer}]}
"""


async def test_a_new_configuration_is_for_decoding_too(start_gateway, start_endpoint):
    """Who answers where others prefill is picked by the new policy, if that judges it, and never the old."""
    gateway = await start_gateway(await start_endpoint(), settings={"scheduling_policy": "round-robin"})
    pool = gateway.shell.plane.pools[POOL]
    assert pool.decoding is pool.policy
    before = gateway.shell.settings
    gateway.shell.change(type(before)().replace(**configured("plugins: [{type: queue-scorer}]\n")))
    assert pool.decoding is pool.policy
    gateway.shell.change(type(before)().replace(scheduling_policy="predicted"))
    assert pool.decoding.name == "least-decoding"


async def test_a_pool_may_name_its_profile_or_policy(start_gateway, start_endpoint, caplog):
    """By the annotation; a name that is neither has no effect, and is told."""
    endpoints = [await start_endpoint(b"a"), await start_endpoint(b"b")]
    gateway = await start_gateway(settings=configured(PROFILES))

    def policy(name: str) -> str:
        gateway.serve(endpoints, scheduling_profile=name)
        return gateway.shell.plane.pools[POOL].policy.name

    assert [policy(name) for name in ("", "other", "round-robin", "")] == [
        "decode",
        "other",
        "round-robin",
        "decode",
    ]
    with caplog.at_level(logging.WARNING):
        assert policy("nonsense") == "decode"
    assert (
        "headgate.dev/scheduling-profile has no effect: nonsense is neither a policy nor a profile"
        in caplog.text
    )
    shown = pages.describe(gateway.shell)["scheduling"]
    assert shown["pools"] == {"default/pool": {"policy": "decode", "unknown": "nonsense"}}


async def test_a_prompt_goes_where_its_beginning_is_cached(start_gateway, start_endpoint):
    """The prefix scorer alone: each conversation stays where it began, and new ones go anywhere."""
    endpoints = [await start_endpoint(name) for name in (b"a", b"b", b"c")]
    gateway = await start_gateway(*endpoints, settings=configured("plugins: [{type: prefix-cache-scorer}]\n"))
    gateway.shell.plane.rng = random.Random(5)
    served = {}
    for turn in range(3):
        for talk in range(8):
            prompt = f"conversation {talk} " * 200 + f"turn {turn} " * 50 * turn
            answer = await gateway.ask({"model": "m", "prompt": prompt}, path="/v1/completions")
            assert served.setdefault(talk, answer.body) == answer.body
    assert len(set(served.values())) > 1


class Raising(scheduling.Policy):
    """Fails with each pick after the first `works`."""

    def __init__(self, works):
        self.works = works

    def pick(self, request, candidates, now, rng):
        self.works -= 1
        if self.works < 0:
            raise RuntimeError("no idea")
        return scheduling.Choice(load=candidates[0])


@pytest.mark.parametrize("works", [0, 1])
async def test_a_policy_that_raises_fails_the_request_alone(start_gateway, start_endpoint, caplog, works):
    """500 at once, also where an attempt has failed already and nobody waits for the next to return; the
    connection and the books stay in order."""
    endpoints = [await start_endpoint(b"a"), await start_endpoint(b"b")]
    gateway = await start_gateway(*endpoints)
    await endpoints[0].stop()
    (pool,) = gateway.shell.plane.pools.values()
    pool.policy = Raising(works)
    client = await gateway.connect()
    client.post()
    failed = await client.response()
    assert (failed.status, failed.json["error"]["code"]) == (500, "internal_error")
    assert "RuntimeError: no idea" in caplog.text
    gateway.shell.plane.ledger.validate()
    assert gateway.shell.plane.ledger.statistics()["requests"] == 0
    pool.policy = Raising(9)
    client.post()
    assert (await client.response()).body == b"b"


async def test_scorers_of_ones_own_are_counted_when_they_fail(
    start_gateway, start_endpoint, monkeypatch, tmp_path
):
    """The metric has the plugin's name; requests are served."""

    (tmp_path / "failing_scorer.py").write_text(FAILING)
    about = tmp_path / "failing_scorer-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: failing_scorer\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[headgate.scorers]\nfailing = failing_scorer:Failing\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    endpoints = [await start_endpoint(b"a"), await start_endpoint(b"b")]
    gateway = await start_gateway(*endpoints, settings=configured("plugins: [{type: failing, name: mine}]\n"))
    gauges.add_gauges(gateway.registry, gateway.shell)
    for _ in range(3):
        assert (await gateway.ask()).status == 200
    assert gateway.metric("headgate_gateway_scorer_failures_total", scorer="mine") == 3


async def test_an_explanation_has_the_scores_of_every_endpoint(start_gateway, start_endpoint):
    """Who asks why sees the sum, and the filter that left one out."""
    text = """
plugins:
- {type: utilization-filter, parameters: {conditions: [{metric: waiting-queue, maxValue: 9}]}}
- {type: queue-scorer}
- {type: kv-cache-utilization-scorer}
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: utilization-filter}
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer}
"""
    endpoints = [await start_endpoint(name) for name in (b"a", b"b", b"c")]
    gateway = await start_gateway(*endpoints, settings=configured(text))
    busy(gateway, 4, 0, 10)
    body = b'{"model": "m", "prompt": "hello"}'
    found = explaining.explain(
        explaining.View.of_plane(gateway.shell.plane, gateway.shell.now()), "/v1/completions", [], body
    )
    (target,) = found.targets
    assert [(each.picked, each.why) for each in target.endpoints] == [
        (False, "0.5 = queue-scorer 0 x 2 + kv-cache-utilization-scorer 0.5 x 1"),
        (True, "2.5 = queue-scorer 1 x 2 + kv-cache-utilization-scorer 0.5 x 1"),
        (False, "left out by utilization-filter"),
    ]


KTHENA = """
scheduler:
  pluginConfig:
  - {name: prefix-cache, args: {blockSizeToHash: 64}}
  plugins:
    Score: {enabled: [{name: prefix-cache, weight: 1}]}
"""


@pytest.mark.parametrize("shared", [100, 700, 1500])
async def test_short_prefixes_match_at_kthenas_blocks(start_gateway, start_endpoint, shared):
    """Prompts that have some hundred bytes in common go to one endpoint, also where they are longer than a
    kilobyte; what begins otherwise goes by chance."""
    endpoints = [await start_endpoint(b"{}") for _ in range(4)]
    settings = {"scheduling_content": yaml.safe_load(KTHENA)}
    gateway = await start_gateway(*endpoints, settings=settings)
    for group in range(8):
        before = [len(each.calls) for each in endpoints]
        for place in range(6):
            system = f"{group}" * shared
            await gateway.ask(
                {"model": "m", "prompt": f"{system}{place} is another question" * (1 + place % 2)}
            )
        after = [len(each.calls) for each in endpoints]
        assert sorted(b - a for a, b in zip(before, after, strict=True)) == [0, 0, 0, 6]
