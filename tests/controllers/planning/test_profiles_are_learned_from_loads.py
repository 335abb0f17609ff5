"""What loads tell of an engine is planned with, shown, and kept beside the object."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headgate import api, cluster
from headgate.api import marks
from headgate.autoscaling.starting import Starts
from headgate.controllers.planning.figures import Figures, add_figures
from headgate.controllers.planning.learning import STEADY_S, WRITTEN_S, Learning
from headgate.controllers.planning.status import Found
from headgate.planning.load import Load
from headgate.planning.queueing import analyze
from headgate.planning.replica import Profile, Replica
from headgate.planning.variants import Variant
from headgate.telemetry import Registry

TRUE = Profile(alpha_ms=12, beta_ms=0.25, gamma_ms=20, delta_ms=0.03)
GROUP = ("llama", "ns")


TINY = {"alpha": 1e-320, "beta": 0, "gamma": 0, "delta": 0}
SPEC = {"alpha": 20.58, "beta": 0.41, "gamma": 5.2, "delta": 0.1}
IMPOSSIBLE = json.dumps({**TINY, "spec": SPEC})
"""An annotation that stands for the spec, with numbers that no fit has."""


def scaled(
    name: str = "web", alpha: str = "20.58", namespace: str = "ns", **annotations: str
) -> api.VariantAutoscaling:
    spec = {
        "modelID": "llama",
        "variantID": "llama-A100-1",
        "accelerator": "A100",
        "acceleratorCount": 1,
        "sloClassRef": {"name": "service-classes-config", "key": "premium.yaml"},
        "variantProfile": {
            "maxBatchSize": 64,
            "perfParms": {
                "decodeParms": {"alpha": alpha, "beta": "0.41"},
                "prefillParms": {"gamma": "5.2", "delta": "0.1"},
            },
        },
    }
    metadata = {"name": name, "namespace": namespace, "annotations": annotations}
    return msgspec.convert({"metadata": metadata, "spec": spec}, api.VariantAutoscaling)


def found(obj: api.VariantAutoscaling, ready: int = 1, starting: int = 0) -> Found:
    pods = [
        api.Pod(status=api.PodStatus(conditions=[api.Condition(type="Ready", status=status)]))
        for status in ["True"] * ready + ["False"] * starting
    ]
    return Found(Variant.of(obj), None, ready + starting, pods, Starts())


def load(share: float, prompt: float = 200, output: float = 150) -> Load:
    """Of one true engine, at a share of the most that it can do."""
    replica = Replica(profile=TRUE, input_tokens=prompt, output_tokens=output, max_batch=64, max_queue=640)
    rate = replica.max_rate_per_s * share
    mean = analyze(replica, rate)
    return Load(
        arrivals_per_s=rate,
        prompt_tokens=prompt,
        output_tokens=output,
        ttft_ms=mean.ttft_ms,
        itl_ms=mean.itl_ms,
    )


def learned(
    obj: api.VariantAutoscaling,
    *others: Found,
    every_s: float = 60.0,
    load_of: Callable[[float], Load] = load,
    **of: int,
) -> Learning:
    """After an hour of a load that changes."""
    learning, own = Learning(), found(obj, **of)
    members = {api.ObjectKey("ns", str(index)): each for index, each in enumerate((own, *others))}
    for minute in range(60):
        measured = load_of(0.05 + 0.8 * (minute % 12) / 12)
        learning.observe(members, {GROUP: measured}, 1e9 + minute * every_s)
    return learning


class Writes:
    """A client that keeps what is written."""

    def __init__(self, error: Exception | None = None) -> None:
        self.patches: list[Any] = []
        self.error = error

    async def patch(self, kind: Any, name: str, namespace: str, patch: Any, **_: Any) -> None:
        self.patches.append(patch["metadata"]["annotations"][marks.LEARNED_PROFILE])
        if self.error is not None:
            raise self.error


def test_an_engine_is_learned_from_its_load() -> None:
    """It is planned with and shown beside the values of the spec."""
    obj = scaled()
    learning = learned(obj)
    profile = learning.profile_of(obj, Variant.of(obj))
    assert profile is not None
    for batch in (2, 20):
        itl_ms = profile.alpha_ms + profile.beta_ms * batch
        assert itl_ms == pytest.approx(TRUE.alpha_ms + TRUE.beta_ms * batch, rel=0.1)
    shown = dict(learning.parameters(obj, Variant.of(obj)))
    assert shown["alpha", "spec"] == 20.58
    assert shown["alpha", "learned"] == profile.alpha_ms
    assert len(shown) == 8


def test_engines_of_another_namespace_teach_nothing() -> None:
    """Their metrics may be wrong, by chance or on purpose."""
    other = scaled(namespace="other")
    learning = learned(scaled(), Found(Variant.of(other), None))
    assert learning.profile_of(scaled(), Variant.of(scaled())) is not None
    assert learning.profile_of(other, Variant.of(other)) is None


def test_a_metric_has_both_profiles() -> None:
    """With the variant, and gone with it."""
    obj, figures, registry = scaled(), Figures(), Registry()
    add_figures(registry, figures)
    figures.profiles[obj.metadata.key] = dict(learned(obj).parameters(obj, Variant.of(obj)))
    name = "headgate_controller_planning_profile"
    page = registry.page("")[0].decode()
    assert f'{name}{{namespace="ns",parameter="alpha",source="spec",variant="web"}} 20.58' in page
    assert page.count(f"{name}{{") == 8
    figures.keep(())
    assert f"{name}{{" not in registry.page("")[0].decode()


@pytest.mark.parametrize(
    "learning",
    [
        learned(scaled(), found(scaled("other"))),
        learned(scaled(), starting=1),
        learned(scaled(), every_s=1.0),
        learned(scaled(), load_of=lambda share: msgspec.structs.replace(load(share), waiting=1)),
        learned(
            scaled(),
            load_of=lambda share: msgspec.structs.replace(load(share), timed_requests=40, queued_requests=5),
        ),
        Learning(),
    ],
    ids=["two variants serve", "one starts", "too early", "some wait", "engines queue", "nothing seen"],
)
def test_nothing_is_learned_of_a_load_that_is_not_one_engines(learning: Learning) -> None:
    """Nobody knows which engine had which requests."""
    assert learning.profile_of(scaled(), Variant.of(scaled())) is None
    assert {source for _, source in dict(learning.parameters(scaled(), Variant.of(scaled())))} == {"spec"}


def test_means_count_once_replicas_have_been_the_same_for_a_while() -> None:
    """Otherwise they are those of another number."""
    learning, obj = Learning(), scaled()
    key = obj.metadata.key
    for pass_ in range(60):
        ready = 1 + pass_ % 2
        learning.observe({key: found(obj, ready)}, {GROUP: load(0.1 + pass_ / 100)}, pass_ * (STEADY_S - 1))
    assert learning.profile_of(obj, Variant.of(obj)) is None


async def test_what_was_learned_is_kept_beside_the_object() -> None:
    """Seldom, after a clear change; a new leader plans with it."""
    obj, client = scaled(), Writes()
    learning = learned(obj)
    await learning.keep(client, obj, Variant.of(obj), 1e9)  # type: ignore[arg-type]
    [text] = client.patches
    kept = json.loads(text)
    assert kept["alpha"] == pytest.approx(12, rel=0.1)
    assert kept["observations"] >= 20
    assert set(kept) == {"alpha", "beta", "gamma", "delta", "observations", "spec"}
    await learning.keep(client, obj, Variant.of(obj), 1e9 + WRITTEN_S - 1)  # type: ignore[arg-type]
    obj = scaled(**{marks.LEARNED_PROFILE: text})
    await learning.keep(client, obj, Variant.of(obj), 1e9 + WRITTEN_S)  # type: ignore[arg-type]
    assert len(client.patches) == 1, "it has not changed"
    profile = Learning().profile_of(obj, Variant.of(obj))
    assert profile is not None
    assert profile.alpha_ms == kept["alpha"]
    before = learning.profile_of(obj, Variant.of(obj))
    assert before is not None
    assert profile.beta_ms == pytest.approx(before.beta_ms, rel=1e-3)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"alpha": "x"}', '{"alpha": -1, "beta": 1}', "9" * 9999, IMPOSSIBLE]
)
async def test_an_annotation_that_is_not_of_the_spec_is_removed(text: str) -> None:
    """Also if it stands for a profile that the spec had before."""
    obj, client = scaled(**{marks.LEARNED_PROFILE: text}), Writes()
    assert Learning().profile_of(obj, Variant.of(obj)) is None
    await Learning().keep(client, obj, Variant.of(obj), 1e9)  # type: ignore[arg-type]
    assert client.patches == [None]
    writes = Writes()
    await learned(scaled()).keep(writes, scaled(), Variant.of(scaled()), 1e9)  # type: ignore[arg-type]
    other = scaled(alpha="30", **{marks.LEARNED_PROFILE: writes.patches[0]})
    assert Learning().profile_of(other, Variant.of(other)) is None


async def test_an_annotation_that_may_not_be_written_stops_nothing() -> None:
    """The plan is the same."""
    for error in (cluster.NotFound("gone", request=""), cluster.Forbidden("no", request="")):
        await learned(scaled()).keep(Writes(error), scaled(), Variant.of(scaled()), 1e9)  # type: ignore[arg-type]
