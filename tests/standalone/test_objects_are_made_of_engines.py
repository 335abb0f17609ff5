"""What engines list becomes the objects that somebody would have written for a cluster."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headgate import api, routing
from headgate.cli.gateway import object_files
from headgate.cli.manifests import read_text
from headgate.cli.objects.printing import as_yaml
from headgate.standalone import composing
from headgate.standalone.asking import Listing
from headgate.standalone.composing import Engine


def engine(name: str, *models: str, adapters: dict[str, str] | None = None, **fields: Any) -> Engine:
    return Engine(
        **{
            "name": name,
            "host": f"10.0.0.{len(name)}",
            "port": 8000,
            "kind": "vLLM",
            "listing": Listing(frozenset(models), adapters or {}),
            **fields,
        }
    )


def snapshot(*engines: Engine) -> routing.Snapshot:
    """As a gateway has it. All objects are valid."""
    objects = composing.objects(engines)
    reading = read_text("made", "---\n".join(as_yaml(each) for each in objects))
    assert [str(each) for each in object_files.judged(reading)] == []

    def of(kind: type[Any]) -> list[Any]:
        return [msgspec.convert(each, kind) for each in objects if each["kind"] == kind.resource.kind]

    return routing.translate(of(api.ModelRoute), of(api.ModelServer), of(api.Pod))


def routes(*engines: Engine) -> list[dict[str, Any]]:
    return [each for each in composing.objects(engines) if each["kind"] == "ModelRoute"]


def served(found: routing.Snapshot, model: str) -> set[str]:
    """The engines that requests for a model may go to."""
    route = found.first(model)
    assert route is not None
    pools = [found.pools[target.pool] for rule in route.rules for target in rule.targets]
    return {each.name.removeprefix("default/") for pool in pools for each in pool.endpoints}


def test_a_model_is_served_by_the_engines_that_list_it() -> None:
    found = snapshot(engine("a", "m1", "m2"), engine("b", "m1"), engine("c", "m1", "m2"))
    assert served(found, "m1") == {"a", "b", "c"}
    assert served(found, "m2") == {"a", "c"}
    assert not found.problems


def test_names_of_one_engine_share_a_pool() -> None:
    """Two names of the same engines have one queue."""
    assert len(snapshot(engine("a", "m", "alias"), engine("b", "m", "alias")).pools) == 1


def test_adapters_go_where_their_model_is() -> None:
    adapters = {f"lora-{number:02}": "m" for number in range(23)}
    found = snapshot(engine("a", "m", adapters=adapters), engine("b", "m"), engine("c", "other"))
    for name in adapters:
        assert served(found, name) == {"a", "b"}
    assert not found.problems


def test_an_adapter_of_a_model_that_is_not_listed_belongs_to_the_first() -> None:
    assert served(snapshot(engine("a", "m", "n", adapters={"lora": "/weights/m"})), "lora") == {"a"}


def test_an_engine_that_lists_too_many_takes_nobodys_place() -> None:
    """Whatever their names: only its own are left out."""
    many = engine("a", *(f"m{number:04}" for number in range(composing.MAX_MODELS + 5)))
    found = [each["spec"]["modelName"] for each in routes(many, engine("z", "tiny", "z-model"))]
    assert len(found) == composing.MAX_MODELS
    assert {"tiny", "z-model"} < set(found)


def test_engines_that_are_away_keep_their_models() -> None:
    """Requests for them wait or get 503, and not 404."""
    assert served(snapshot(engine("a", "m", is_ready=False)), "m") == set()


def test_engines_that_never_answered_are_no_objects() -> None:
    assert composing.objects([engine("a"), engine("b")]) == []


def test_roles_split_prefill_and_decode() -> None:
    found = snapshot(
        engine("p", "m", role="prefill"),
        engine("d", "m", role="decode"),
        engine("both", "m"),
        engine("x", "n"),
    )
    roles = {}
    for pool in found.pools.values():
        if pool.phases is not None:
            assert pool.phases.connector == "nixl"
            roles |= {each.name: (role.prefills, role.decodes) for each, role in pool.phases.roles.items()}
    assert roles == {
        "default/p": (True, False),
        "default/d": (False, True),
        "default/both": (True, True),
    }
    assert not found.problems


def test_weights_split_the_requests() -> None:
    (pool,) = snapshot(engine("a", "m", weight=2.5), engine("b", "m")).pools.values()
    assert {each.name: weight for each, weight in pool.weights.items()} == {
        "default/a": 2.5,
        "default/b": 1.0,
    }


def test_engines_by_https_are_a_pool_of_their_own() -> None:
    found = snapshot(
        engine("a", "m"),
        engine("b", "m", is_https=True, host="b.example.com"),
        engine("c", "m", is_https=True, host="c.example.com"),
    )
    route = found.first("m")
    assert route is not None
    assert [target.weight for target in route.rules[0].targets] == [50, 100]
    assert [pool.tls is not None for pool in found.pools.values()].count(True) == 1


def test_engines_of_other_kinds_keep_their_metrics() -> None:
    (pool,) = snapshot(engine("a", "m", kind="SGLang"), engine("b", "m", kind="TensorRT-LLM")).pools.values()
    assert {labels["llm-d.ai/engine-type"] for labels in pool.labels.values()} == {"SGLang", "TensorRT-LLM"}
    (pool,) = snapshot(engine("a", "m", kind="SGLang")).pools.values()
    assert pool.engine == "SGLang"


def test_a_prefix_and_an_address_of_ipv6_reach_the_endpoint() -> None:
    (pool,) = snapshot(engine("a", "m", host="fd00::7", prefix="/llama")).pools.values()
    (endpoint,) = pool.endpoints
    assert (endpoint.host, endpoint.port, endpoint.prefix) == ("fd00::7", 8000, "/llama")


def test_names_that_would_be_equal_are_told_apart() -> None:
    found = snapshot(engine("a", "org/Model-1"), engine("b", "org_model.1"))
    assert served(found, "org/Model-1") == {"a"}
    assert served(found, "org_model.1") == {"b"}


MODELS = st.sets(st.text(min_size=1, max_size=300), max_size=5)


@given(st.dictionaries(st.sampled_from("abcdef"), st.tuples(MODELS, MODELS, st.booleans()), max_size=6))
def test_whatever_engines_list_each_model_goes_to_those_that_list_it(
    listed: dict[str, tuple[set[str], set[str], bool]],
) -> None:
    engines = [
        engine(
            name, *models, adapters=dict.fromkeys(adapters - models, min(models, default="")), is_https=https
        )
        for name, (models, adapters, https) in listed.items()
    ]
    found = snapshot(*engines)
    for model in {model for models, _, _ in listed.values() for model in models}:
        if len(model) <= 256 and model.isprintable():
            assert served(found, model) == {
                name for name, (models, _, _) in listed.items() if model in models
            }
        else:
            assert found.first(model) is None
    assert not found.problems
