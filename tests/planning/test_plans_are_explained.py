"""Why a plan is as it is: what binds, what one replica less would do, what the next best plan is."""

import msgspec
import pytest
from variant_objects import Traffic, configured, variant

from headgate.planning import explaining, solving
from headgate.planning.assembling import assemble
from headgate.planning.explaining import DemandExplained
from headgate.planning.system import Load, System, Target

LLM = ("m", "llm")


def system(
    *given,
    per_s: float = 2.0,
    slo: str = "slo-tpot: 24, slo-ttft: 500",
    limits: dict[str, int] | None = None,
    **load: float,
) -> System:
    """Variants of one model; by default one on A100."""
    classes = {"premium.yaml": f"{{name: Premium, priority: 1, data: [{{model: m, {slo}}}]}}"}
    return assemble(
        given or [variant()],
        configured(classes=classes),
        replicas={},
        loads={LLM: Traffic(arrivals_per_s=per_s, **load)},
        limits=limits,
    ).system


def explained(described: System, percentile: float | None = 95.0) -> DemandExplained:
    (found,) = explaining.explain(described, solving.exactly(described, percentile), percentile)
    return found


def test_a_demand_is_explained() -> None:
    """Four replicas for the 95th percentile of 500 ms; with three, a fifth of requests would be late."""
    found = explained(system())
    assert (found.model, found.service_class, found.priority) == ("m", "Premium", 1)
    assert found.load == Load(arrival_rate=120, avg_in_tokens=100, avg_out_tokens=128)
    assert found.target == Target(model="m", ttft=500, itl=24)
    assert found.percentile == 95
    assert (found.cost, found.served, found.unserved) == (160, 1, "")
    (server,) = found.servers
    assert (server.server, server.accelerator, server.num_replicas, server.current_replicas) == (
        ("chat:llm", "A100", 4, 0)
    )
    assert (server.share, server.arrival_rate, server.binding) == (1, 30, "ttft")
    assert server.max_arrival_rate == pytest.approx(60 * 0.52754, rel=1e-4)
    assert server.predicted.ttft <= 500
    assert server.predicted.attained is not None
    assert 0.95 <= server.predicted.attained <= 0.97
    assert server.profile is not None
    assert server.profile.alpha_ms == 20.58
    less = server.one_less
    assert less is not None
    assert (less.saves, less.served, less.overload) == (40, pytest.approx(0.791, abs=1e-3), 0)
    assert less.predicted is not None
    assert less.predicted.ttft > 500
    assert less.predicted.attained is not None
    assert less.predicted.attained < 0.95
    assert found.runner_up is None


@pytest.mark.parametrize(
    ("slo", "binding"),
    [
        ("slo-tpot: 24, slo-ttft: 500", "ttft"),
        ("slo-tpot: 21.2, slo-ttft: 60000", "itl"),
        ("slo-tpot: 24", "capacity"),
        ("slo-tpot: 1000, slo-ttft: 100000", "capacity"),
    ],
)
def test_what_limits_a_replica_is_named(slo, binding) -> None:
    """The objective, or the engine where no objective does."""
    (server,) = explained(system(slo=slo)).servers
    assert server.binding == binding
    assert (server.predicted.attained is None) is ("ttft" not in slo)


def test_the_mean_is_explained_as_such() -> None:
    """It needs one replica less, which the percentile could not do with."""
    found = explained(system(), None)
    assert (found.percentile, found.servers[0].num_replicas) == (None, 3)
    assert found.servers[0].predicted.attained is not None
    assert found.servers[0].predicted.attained < 0.95


def test_the_next_best_plan_is_found() -> None:
    """That of the other variant; with limits, as far as it fits."""
    given = [variant(), variant("chat-2", accelerator="L40S")]
    found = explained(system(*given))
    assert [(each.server, each.num_replicas) for each in found.servers] == [("chat-2:llm", 4)]
    assert found.runner_up is not None
    assert msgspec.to_builtins(found.runner_up) == {
        "uses": ({"server": "chat:llm", "accelerator": "A100", "numReplicas": 4},),
        "cost": 160,
        "costDiff": 32,
    }
    limited = system(*given, limits={"NVIDIA-A100": 3, "NVIDIA-L40S": 9})
    assert explained(limited).runner_up is None


def test_a_replica_that_serves_everything_cannot_be_left_out() -> None:
    """Nothing would be served."""
    (server,) = explained(system(per_s=0.1)).servers
    assert server.num_replicas == 1
    assert server.one_less is not None
    assert (server.one_less.served, server.one_less.predicted) == (0, None)


def test_too_few_replicas_are_told_apart_from_slow_ones() -> None:
    """Where more arrives than is completed, there is no latency."""
    (server,) = explained(system(per_s=1.2, slo="slo-tpot: 24")).servers
    assert server.num_replicas == 1
    described = system(per_s=2.4, slo="slo-tpot: 24")
    (server,) = explained(described).servers
    less = server.one_less
    assert server.num_replicas == 2
    assert less is not None
    assert less.predicted is None
    assert less.overload > 1


def test_a_demand_without_load_has_its_minimum() -> None:
    """Which nothing limits."""
    found = explained(system(per_s=0))
    (server,) = found.servers
    assert (server.num_replicas, server.binding, server.one_less) == (1, "", None)
    assert (server.predicted.attained, server.profile) == (None, None)
    assert (found.served, found.load.arrival_rate) == (1, 0)


def test_what_is_served_in_part_is_explained() -> None:
    """By priority, as far as accelerators go."""
    found = explained(system(limits={"NVIDIA-A100": 2}))
    assert found.served == pytest.approx(2 / 3.74, abs=1e-2)
    (server,) = found.servers
    assert server.num_replicas == 2
    assert server.predicted.ttft == pytest.approx(500, rel=1e-3)
    assert server.one_less is not None
    assert server.one_less.served == pytest.approx(found.served / 2)


def test_what_cannot_be_served_has_a_reason() -> None:
    """In the words of the solution."""
    found = explained(system(slo="slo-tpot: 9"))
    assert (found.servers, found.cost, found.served) == ((), 0, 0)
    assert found.unserved == "A100: ITL of 9 ms cannot be met: an idle replica has 20.99 ms"
    assert found.rejected == {"chat:llm on A100": "ITL of 9 ms cannot be met: an idle replica has 20.99 ms"}
