"""VariantAutoscalings become a system, and its solution becomes a decision for each."""

import itertools
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from variant_objects import CLASSES, COSTS, Traffic, configured, scaled, variant

from headgate.api.meta import ObjectKey
from headgate.planning import config_maps, limits, solving
from headgate.planning.assembling import Assembly, Decision, assemble
from headgate.planning.replica import Profile
from headgate.planning.variants import Variant, VariantProblem

CHAT = ObjectKey("llm", "chat")
TWO = ObjectKey("llm", "chat-2")
LLM = ("m", "llm")


def assembled(*given: Variant, replicas=None, loads=None, configuration=None, **more: Any) -> Assembly:
    return assemble(
        given,
        configuration or configured(),
        replicas=replicas or {},
        loads={LLM: Traffic(arrivals_per_s=2), ("z", "llm"): Traffic(arrivals_per_s=2)}
        if loads is None
        else loads,
        **more,
    )


def solved(assembly: Assembly) -> dict[ObjectKey, Decision | VariantProblem]:
    return assembly.decisions(solving.exactly(assembly.system))


def replicas_of(assembly: Assembly) -> dict[str, int]:
    found = solved(assembly)
    return {str(key): each.replicas for key, each in found.items() if isinstance(each, Decision)}


def reasons(assembly: Assembly, key: ObjectKey = CHAT) -> list[tuple[str, bool]]:
    return [(each.reason, each.is_warning) for each in assembly.problems.get(key, ())]


def message(assembly: Assembly, key: ObjectKey = CHAT) -> str:
    (problem,) = assembly.problems[key]
    return problem.message


def test_a_variant_is_decided() -> None:
    """120 requests a minute need four replicas for the 95th percentile, three for the mean."""
    assembly = assembled(variant(), replicas={CHAT: 1})
    (found,) = solved(assembly).values()
    assert isinstance(found, Decision)
    assert (found.replicas, found.accelerator, found.cost) == (4, "A100", 160)
    assert (found.share, found.served) == (1, 1)
    assert found.ttft_ms <= 500
    assert assembly.problems == {}
    mean = assembly.decisions(solving.exactly(assembly.system, None))[CHAT]
    assert isinstance(mean, Decision)
    assert mean.replicas == 3


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"decode": {"alpha": "x", "beta": "1"}},
            'decodeParms.alpha: "x" is not a number of milliseconds; write it as in "0.5"',
        ),
        ({"decode": {"alpha": "1"}}, "decodeParms has no beta"),
        ({"prefill": {"gamma": "-1", "delta": "1"}}, 'prefillParms.gamma: "-1" is not a number'),
        ({"prefill": {"gamma": "inf", "delta": "1"}}, 'prefillParms.gamma: "inf" is not a number'),
        ({"batch": 9_000}, "maxBatchSize: 9000 is more than 8192"),
        ({"count": 2000}, "acceleratorCount: 2000 is more than 1024"),
    ],
)
def test_a_broken_profile_leaves_the_others(fields, told) -> None:
    """Case 5. It has a reason of its own; the reference leaves it out silently."""
    assembly = assembled(variant(**fields), variant("chat-2"))
    assert reasons(assembly) == [("InvalidProfile", False)]
    assert told in message(assembly)
    assert replicas_of(assembly) == {"llm/chat-2": 4}


def test_a_label_that_differs_is_reported() -> None:
    """The accelerator of the spec is planned with."""
    assembly = assembled(variant(label="L40S"))
    assert reasons(assembly) == [("AcceleratorDiffers", True)]
    assert message(assembly) == (
        'metadata.labels["inference.optimization/acceleratorName"] is "L40S", but spec.accelerator is '
        '"A100", which is used; set both to the accelerator of the Deployment'
    )
    assert solved(assembly)[CHAT].accelerator == "A100"
    assert reasons(assembled(variant(label="A100"))) == []


def test_a_variant_id_that_differs_is_reported() -> None:
    """IDs with slashes are kept as they are."""
    odd = variant(variant_id="meta/m-A100-4")
    assert odd.variant_id == "meta/m-A100-4"
    assert reasons(assembled(odd)) == [("VariantIDDiffers", True)]


@pytest.mark.parametrize(
    ("costs", "told"),
    [
        ({}, "has no key A100; add A100: "),
        ({"A100": '{"cost": 40}'}, "key A100, field cost: 40 is not text"),
    ],
)
def test_a_missing_cost_leaves_the_others(costs, told) -> None:
    """A broken key is quoted."""
    assembly = assembled(
        variant(),
        variant("chat-2", accelerator="L40S"),
        configuration=configured(costs={"L40S": COSTS["L40S"], **costs}),
    )
    assert reasons(assembly) == [("CostMissing", False)]
    assert told in message(assembly)
    assert list(replicas_of(assembly)) == ["llm/chat-2"]


def test_the_class_is_that_of_the_reference() -> None:
    """Not just any that lists the model; also in the namespace of the object, which comes first."""
    own = {"gold": "{name: Gold, priority: 2, data: [{model: m, slo-ttft: 100}]}"}
    configuration = configured(other_classes={("llm", "mine"): own, ("llm", config_maps.CLASSES): own})
    for reference in (("mine", "gold"), (config_maps.CLASSES, "gold")):
        assembly = assembled(variant(reference=reference), configuration=configuration)
        assert [each.name for each in assembly.system.classes.values()] == ["Gold"]
        assert assembly.system.priority(assembly.system.servers["chat:llm"]) == 2
        assert assembly.problems == {}


def test_a_reference_to_nothing_takes_the_most_important_class_of_the_model() -> None:
    """With a warning: the reference ignores the field, so that objects in use have all kinds of values."""
    classes = {
        "a.yaml": "{name: A, priority: 5, data: [{model: m, slo-ttft: 1000}]}",
        "b.yaml": "{name: B, priority: 2, data: [{model: m, slo-ttft: 800}]}",
    }
    assembly = assembled(
        variant(reference=("premium-slo", "opt-125m")), configuration=configured(classes=classes)
    )
    assert reasons(assembly) == [("SLOReferenceBroken", True)]
    assert message(assembly) == (
        "spec.sloClassRef: ConfigMap premium-slo has no key opt-125m; class B of the key b.yaml is used, "
        "since it lists m"
    )
    assert list(assembly.system.classes) == ["B"]


@pytest.mark.parametrize(
    ("fields", "classes", "told"),
    [
        ({"reference": ("x", "y"), "model": "z"}, CLASSES, "has no key y; add the key, with the model z"),
        ({"reference": (config_maps.CLASSES, "free.yaml")}, CLASSES, "Free has no targets for the model m"),
        ({}, {"premium.yaml": "["}, "key premium.yaml: is not YAML"),
        ({}, {"premium.yaml": "{data: [{model: m, slo-ttft: x}]}"}, 'data[0].slo-ttft: "x" is not'),
        (
            {},
            {"premium.yaml": "{data: {model: m, slo-ttft: 9}}"},
            'field data: {"model": "m", "slo-ttft": 9} is',
        ),
    ],
)
def test_without_an_objective_nothing_is_planned(fields, classes, told) -> None:
    """A key that exists is never replaced by another one."""
    assembly = assembled(variant(**fields), configuration=configured(classes=classes))
    assert reasons(assembly) == [("SLONotFound", False)]
    assert told in message(assembly)
    assert assembly.planned == {}


def test_problems_of_the_configuration_concern_those_that_use_it() -> None:
    """Settings concern all, a class or a model only its own variants."""
    configuration = configured(
        classes={**CLASSES, "free.yaml": "{priority: high, data: [{model: n, slo-ttft: 9000}]}"},
        main={"GLOBAL_OPT_INTERVAL": "x"},
        scale_to_zero={"model.m": "{modelID: m, retentionPeriod: never}", "odd": ""},
    )
    free = variant("docs", model="n", reference=(config_maps.CLASSES, "free.yaml"))
    loads = {LLM: Traffic(arrivals_per_s=1), ("n", "llm"): Traffic(arrivals_per_s=1)}
    assembly = assembled(variant(), free, configuration=configuration, loads=loads)
    fields = {key: [each.message for each in found] for key, found in assembly.problems.items()}
    assert ["GLOBAL_OPT_INTERVAL" in fields[CHAT][0], "never" in fields[CHAT][1]] == [True, True]
    assert ["high" in each for each in fields[ObjectKey("llm", "docs")]] == [True, False, False]
    assert [len(each) for each in fields.values()] == [3, 3]


def test_ten_thousand_problems_take_no_time_of_each_variant() -> None:
    """A tenant can write them; a message names the first of those that concern an object."""
    odd = {f"k{index}": "{name: A, priority: x}" for index in range(2_000)}
    settings_ = {f"odd{index}": "" for index in range(2_000)}
    configuration = configured(other_classes={("b", "x"): odd}, scale_to_zero=settings_)
    given = [variant(f"chat-{index}") for index in range(200)]
    began = time.process_time()
    assembly = assembled(*given, configuration=configuration)
    assert time.process_time() - began < 1
    assert {len(each) for each in assembly.problems.values()} == {20}


def test_names_that_no_metric_can_have_are_not_planned() -> None:
    """One label of a million characters, and nobody reads the metrics of all others."""
    assembly = assembled(variant(variant_id=f"{'m' * 2000}-A100-1"), variant("chat-2"))
    assert ("InvalidConfiguration", False) in reasons(assembly)
    assert replicas_of(assembly) == {"llm/chat-2": 4}


def test_a_key_of_an_unknown_model_concerns_those_without_settings() -> None:
    """It may be meant for any of them."""
    configuration = configured(
        scale_to_zero={"model.x": "enableScaleToZero: true", "model.n": "{modelID: n}"},
    )
    loads = {LLM: Traffic(arrivals_per_s=1)}
    assert "field modelID: is not the name of a model" in message(
        assembled(variant(), configuration=configuration, loads=loads)
    )
    configured_too = configured(
        scale_to_zero={"model.x": "enableScaleToZero: true", "model.m": "{modelID: m}"}
    )
    assert not assembled(variant(), configuration=configured_too, loads=loads).problems


def test_variants_of_a_model_share_its_load() -> None:
    """Case 56. Each would get four replicas alone, as in the reference."""
    given = [variant(), variant("chat-2", accelerator="L40S")]
    together, alone = assembled(*given), assembled(*given, together=False)
    assert sum(replicas_of(together).values()) == 4
    assert replicas_of(together) == {"llm/chat": 0, "llm/chat-2": 4}
    assert solving.as_reference(alone.system, 95).allocations["chat:llm"].num_replicas == 4
    assert replicas_of(alone) == {"llm/chat": 4, "llm/chat-2": 4}


def test_variants_on_one_accelerator_keep_their_own_profiles() -> None:
    """Where the reference plans both with the last one."""
    slow = variant("chat-2", count=2, decode={"alpha": "23", "beta": "0.2"}, batch=8)
    for order in itertools.permutations([variant(), slow]):
        system = assembled(*order).system
        assert [system.profile(each, "A100").max_batch_size for each in system.servers.values()] == [4, 8]


def test_a_learned_profile_comes_before_that_of_the_object() -> None:
    """The batch size stays; other variants have their own."""
    learned = Profile(alpha_ms=10, beta_ms=0.2, gamma_ms=10, delta_ms=0.02)
    assembly = assembled(variant(), variant("chat-2"), profiles={CHAT: learned})
    assert replicas_of(assembly) == {"llm/chat": 2, "llm/chat-2": 0}
    performance = assembly.system.own_performance["chat:llm"]
    assert (performance.decode_parms.alpha, performance.max_batch_size) == (10, 4)
    assert assembly.system.own_performance["chat-2:llm"].decode_parms.alpha == 20.58


@given(
    st.lists(st.floats(0, 50), min_size=2, max_size=2),
    st.none() | st.integers(0, 60),
    st.lists(st.integers(0, 20), min_size=5, max_size=5),
)
@settings(max_examples=30)
def test_a_plan_that_is_carried_out_stays(rates, limit, now) -> None:
    """Planned again with its own replicas, nothing changes."""
    free = (config_maps.CLASSES, "free.yaml")
    variants = [
        variant("a"),
        variant("b", accelerator="L40S"),
        variant("c", model="n", reference=free),
        variant("d", model="n", reference=free, accelerator="L40S"),
        variant("e", count=2, batch=8),
    ]
    loads = {
        group: Traffic(arrivals_per_s=rate) for group, rate in zip((LLM, ("n", "llm")), rates, strict=True)
    }
    limits = None if limit is None else {"NVIDIA-A100": limit, "NVIDIA-L40S": 10}
    replicas = {each.key: number for each, number in zip(variants, now, strict=True)}
    first = replicas_of(assembled(*variants, replicas=replicas, loads=loads, limits=limits))
    carried = {each.key: first.get(str(each.key), replicas[each.key]) for each in variants}
    again = replicas_of(assembled(*variants, replicas=carried, loads=loads, limits=limits))
    assert again == first


def test_a_name_may_be_in_two_namespaces() -> None:
    """Case 29. Both get their own result."""
    loads = {LLM: Traffic(arrivals_per_s=2), ("m", "other"): Traffic(arrivals_per_s=5)}
    assembly = assembled(variant(), variant(namespace="other"), loads=loads)
    assert replicas_of(assembly) == {"llm/chat": 4, "other/chat": 10}


def test_variants_without_a_load_are_left_out() -> None:
    """Nothing is known, so that nothing is decided; what they use is not free for others."""
    loads = {LLM: Traffic(arrivals_per_s=2)}
    other = variant("chat-2", namespace="other")
    now = {ObjectKey("other", "chat-2"): 3}
    assembly = assembled(variant(), other, loads=loads, replicas=now, limits={"NVIDIA-A100": 5})
    assert assembly.system.capacity == {"NVIDIA-A100": 2}
    assert replicas_of(assembly) == {"llm/chat": 2}
    assert solved(assembly)[CHAT].served < 1


def test_without_load_the_cheapest_that_runs_stays() -> None:
    """One replica for the model, not one for each variant."""
    given = [variant(), variant("chat-2", accelerator="L40S"), variant("chat-3", count=2)]
    idle = {LLM: Traffic(arrivals_per_s=0, prompt_tokens=0, output_tokens=0)}
    for now, kept in (
        ({}, "chat-2"),
        ({CHAT: 2}, "chat"),
        ({CHAT: 1, ObjectKey("llm", "chat-3"): 1}, "chat"),
    ):
        found = replicas_of(assembled(*given, loads=idle, replicas=now))
        assert {name: number for name, number in found.items() if number} == {f"llm/{kept}": 1}


@pytest.mark.parametrize(
    ("waiting", "in_use", "replicas"), [(0, (), 0), (1, (), 1), (0, (LLM,), 1), (0, (("m", "other"),), 0)]
)
def test_a_model_scales_to_zero_after_its_retention(waiting, in_use, replicas) -> None:
    """Unless requests wait."""
    configuration = configured(scale_to_zero={"__defaults__": "enableScaleToZero: true"})
    idle = {LLM: Traffic(arrivals_per_s=0, waiting=waiting)}
    assembly = assembled(
        variant(), configuration=configuration, loads=idle, in_use=in_use, replicas={CHAT: 2}
    )
    found = solved(assembly)[CHAT]
    assert isinstance(found, Decision)
    assert (found.replicas, found.accelerator) == (replicas, "A100")


def test_cached_tokens_need_no_prefill() -> None:
    """The rest of the prompt does."""
    load = Traffic(arrivals_per_s=1.5, prompt_tokens=1000, cached_share=0.75, output_tokens=0.5)
    server = assembled(variant(), loads={LLM: load}).system.servers["chat:llm"]
    assert server.current_alloc.load.avg_in_tokens == 250
    assert (server.current_alloc.load.arrival_rate, server.current_alloc.load.avg_out_tokens) == (90, 1)


def test_different_classes_of_one_model_are_reported() -> None:
    """Each is planned for everything, since nobody knows which requests belong to which."""
    classes = {**CLASSES, "slow.yaml": "{name: Premium, priority: 9, data: [{model: m, slo-ttft: 9000}]}"}
    assembly = assembled(
        variant(),
        variant("chat-2", reference=(config_maps.CLASSES, "slow.yaml")),
        configuration=configured(classes=classes),
    )
    assert reasons(assembly) == reasons(assembly, TWO) == [("ClassesDiffer", True)]
    assert len(assembly.system.classes) == 2
    assert all(replicas_of(assembly).values())


def test_replicas_without_a_node_take_no_accelerators_of_others() -> None:
    """Anyone may want a thousand for an object that cannot be planned; those that run count."""
    broken = variant("broken", decode={"alpha": "x", "beta": "1"})
    for placed, left in (({broken.key: 0}, 4), ({broken.key: 2}, 2)):
        assembly = assembled(
            variant(), broken, replicas={CHAT: 4, broken.key: 1000}, limits={"NVIDIA-A100": 4}, placed=placed
        )
        assert assembly.system.capacity == {"NVIDIA-A100": left}
        assert replicas_of(assembly) == {"llm/chat": left}


def test_a_type_without_a_limit_keeps_what_it_has() -> None:
    """A device that is spelled in another way on Nodes must not stop everything."""
    assembly = assembled(variant(), replicas={CHAT: 2}, limits={"NVIDIA-A100-80GB-PCIe": 8})
    assert reasons(assembly) == [("CapacityUnknown", True)]
    assert replicas_of(assembly) == {"llm/chat": 2}


@pytest.mark.parametrize("arrivals", [0, 1])
def test_times_close_to_zero_leave_the_others(arrivals) -> None:
    """Rates that are no numbers would stop the plan of everybody. A token may take next to no time only where
    somebody has learned so."""
    tiny = Profile(alpha_ms=1e-320, beta_ms=0, gamma_ms=1e-320, delta_ms=0)
    loads = {LLM: Traffic(arrivals_per_s=arrivals, output_tokens=2), ("m", "b"): Traffic(arrivals_per_s=1)}
    given = variant(), variant(namespace="b")
    found = solved(assembled(*given, loads=loads, profiles={CHAT: tiny}))
    other = found[ObjectKey("b", "chat")]
    assert isinstance(other, Decision)
    assert other.replicas > 0


def test_parameters_that_nobody_needs_have_no_effect() -> None:
    """Such as a unit: they may be any text."""
    decode = {"a unit": "ms", "alpha": "20.58", "beta": "0.41"}
    assert variant(decode=decode) == variant()


def test_what_cannot_be_planned_has_a_reason() -> None:
    """Case 27. Each of them, also if nothing can be."""
    tight = {"premium.yaml": "{data: [{model: m, slo-tpot: 9}]}"}
    assembly = assembled(variant(), variant("chat-2"), configuration=configured(classes=tight))
    found = solved(assembly)
    assert {each.reason for each in found.values()} == {"OptimizationFailed"}
    assert found[CHAT].message == "A100: ITL of 9 ms cannot be met: an idle replica has 20.99 ms"


def test_a_class_without_accelerators_gives_up_what_it_has() -> None:
    """A more important one gets them; a plan that stays would be for more than there are."""
    classes = {**CLASSES, "free.yaml": "{name: Free, priority: 9, data: [{model: n, slo-tpot: 24}]}"}
    docs = variant("docs", model="n", reference=(config_maps.CLASSES, "free.yaml"))
    slow = variant(
        "slow", model="n", reference=(config_maps.CLASSES, "free.yaml"), decode={"alpha": "80", "beta": "1"}
    )
    loads = {LLM: Traffic(arrivals_per_s=1.5), ("n", "llm"): Traffic(arrivals_per_s=1.5)}
    found = solved(
        assembled(
            variant(),
            docs,
            slow,
            configuration=configured(classes=classes),
            loads=loads,
            replicas={docs.key: 2, slow.key: 1},
            limits={"NVIDIA-A100": 3},
        )
    )
    assert [(each.replicas, each.unfit) for each in found.values()] == [
        (3, ""),
        (0, "not enough accelerators; it could run on A100"),
        (0, "A100: ITL of 24 ms cannot be met: an idle replica has 81 ms"),
    ]
    assert [each.served for each in found.values()][1:] == [0, 0]


def test_a_variant_that_misses_the_targets_is_told_from_one_that_is_not_needed() -> None:
    """Both get no replicas while another one serves the model."""
    slow = variant("chat-2", decode={"alpha": "80", "beta": "1"})
    dear = variant("chat-3", count=4)
    found = solved(assembled(variant(), slow, dear))
    assert [each.replicas for each in found.values()] == [4, 0, 0]
    assert [each.unfit for each in found.values()] == [
        "",
        "A100: ITL of 24 ms cannot be met: an idle replica has 81 ms",
        "",
    ]
    assert found[TWO].served == 1


@pytest.mark.parametrize(
    ("fields", "reason", "told"),
    [
        ({"accelerator": "A"}, "InvalidConfiguration", "give accelerators names of at least 2 characters"),
        ({"decode": {"alpha": "0", "beta": "0"}}, "InvalidProfile", "tokens would take no time"),
        ({"decode": {"alpha": "1e-320", "beta": "0"}}, "InvalidProfile", "tokens would take no time"),
    ],
)
def test_what_no_status_or_plan_can_have_is_left_out(fields, reason, told) -> None:
    """With the others planned as usual."""
    odd = variant("chat-2", **fields)
    configuration = configured(costs={**COSTS, "A": COSTS["A100"]})
    assembly = assembled(variant(), odd, configuration=configuration)
    assert reasons(assembly, TWO) == [(reason, False)]
    assert told in message(assembly, TWO)
    assert replicas_of(assembly) == {"llm/chat": 4}


def test_a_config_map_that_does_not_exist_is_named() -> None:
    """A missing key is something else."""
    configuration = config_maps.read(None, None, None, None)
    told = [each.message for each in assembled(variant(), configuration=configuration).problems[CHAT]]
    for name in (config_maps.CLASSES, config_maps.COSTS):
        assert any(f"{name}: does not exist" in each for each in told)


def test_a_broken_limit_concerns_its_own_accelerator() -> None:
    """Others do not have it as a problem."""
    configuration = configured()
    _, wrong = limits.of_config_map(
        f"{configuration.namespace}/{limits.LIMITS}", {"A100": "x"}, configuration.accelerators
    )
    whole = msgspec.structs.replace(configuration, problems=tuple(wrong))
    assembly = assembled(variant(), variant("chat-2", accelerator="L40S"), configuration=whole)
    assert reasons(assembly) == [("InvalidConfiguration", True)]
    assert reasons(assembly, TWO) == []


def test_a_server_that_is_not_in_the_solution_is_an_error() -> None:
    """It is another system's."""
    other = solving.exactly(assembled(variant("chat-2")).system)
    with pytest.raises(LookupError, match="the solution has no server chat:llm"):
        assembled(variant()).decisions(other)


def test_the_order_of_objects_has_no_influence() -> None:
    """Nor has it on the system."""
    given = [variant(), variant("chat-2", accelerator="L40S"), variant("chat", namespace="other")]
    loads = {LLM: Traffic(arrivals_per_s=2), ("m", "other"): Traffic(arrivals_per_s=1)}
    systems = [assembled(*order, loads=loads).system for order in itertools.permutations(given)]
    assert all(each == systems[0] for each in systems)
    assert scaled().metadata.key == CHAT
