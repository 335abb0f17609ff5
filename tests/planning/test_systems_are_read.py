"""The JSON description of a system: its names, defaults, and all errors at once."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.planning.system import SystemErrors, read

EXAMPLE = Path(__file__).parents[2] / "examples" / "planning" / "system.json"


def errors_of(document: object) -> list[str]:
    with pytest.raises(SystemErrors) as raised:
        read(document if isinstance(document, bytes) else msgspec.json.encode(document))
    return str(raised.value).splitlines()


def test_every_name_of_the_description_is_read() -> None:
    """As inferno writes it."""
    server = {
        "name": "s1",
        "class": "Premium",
        "model": "m",
        "keepAccelerator": True,
        "minNumReplicas": 2,
        "maxBatchSize": 8,
        "currentAlloc": {
            "accelerator": "A100",
            "numReplicas": 3,
            "maxBatch": 8,
            "cost": 120.0,
            "itlAverage": 21.5,
            "ttftAverage": 100.0,
            "load": {"arrivalRate": 60, "avgInTokens": 100, "avgOutTokens": 200},
        },
        "desiredAlloc": {"accelerator": "A100", "numReplicas": 4},
    }
    system = read(
        msgspec.json.encode(
            {
                "system": {
                    "acceleratorData": {
                        "accelerators": [
                            {
                                "name": "A100",
                                "type": "A100-80",
                                "multiplicity": 2,
                                "memSize": 80,
                                "memBW": 2039,
                                "power": {"idle": 50, "full": 400, "midPower": 300, "midUtil": 0.5},
                                "cost": 40,
                            }
                        ]
                    },
                    "modelData": {
                        "models": [
                            {
                                "name": "m",
                                "acc": "A100",
                                "accCount": 0,
                                "maxBatchSize": 16,
                                "atTokens": 512,
                                "decodeParms": {"alpha": 5, "beta": 2},
                                "prefillParms": {"gamma": 10, "delta": 1.5},
                            }
                        ]
                    },
                    "serviceClassData": {
                        "serviceClasses": [
                            {
                                "name": "Premium",
                                "priority": 1,
                                "modelTargets": [
                                    {
                                        "model": "m",
                                        "slo-itl": 24,
                                        "slo-ttft": 500,
                                        "slo-tps": 10,
                                        "slo-percentile": 99,
                                    }
                                ],
                            }
                        ]
                    },
                    "serverData": {"servers": [server]},
                    "optimizerData": {
                        "optimizer": {
                            "unlimited": False,
                            "delayedBestEffort": True,
                            "saturationPolicy": "RoundRobin",
                        }
                    },
                    "capacityData": {"count": [{"type": "A100-80", "count": 4}]},
                }
            }
        )
    )
    assert (system.accelerators["A100"].kind, system.accelerators["A100"].mem_bw) == ("A100-80", 2039)
    assert system.accelerators["A100"].power.mid_util == 0.5
    assert (system.performance["m", "A100"].count, system.performance["m", "A100"].at_tokens) == (1, 512)
    target = system.target(system.servers["s1"])
    assert target is not None
    assert (target.itl, target.ttft, target.tps, target.percentile) == (24, 500, 10, 99)
    assert system.priority(system.servers["s1"]) == 1
    assert system.servers["s1"].current_alloc.load.arrival_rate == 60
    assert system.servers["s1"].desired_alloc.num_replicas == 4
    assert system.capacity == {"A100-80": 4}
    assert system.optimizer.delayed_best_effort


def test_what_is_left_out_has_defaults() -> None:
    """The class Free with the last priority, no policy, limits of nothing."""
    document = {"system": {"serverData": {"servers": [{"name": "s", "model": "m", "class": ""}]}}}
    system = read(msgspec.json.encode(document))
    server = system.servers["s"]
    assert (server.service_class, system.priority(server), system.target(server)) == ("Free", 100, None)
    assert system.optimizer.saturation_policy == "None"
    assert not system.optimizer.unlimited


@pytest.mark.parametrize(
    ("priority", "rank"), [(1, 1), (10, 10), (100, 100), (0, 100), (101, 100), (-3, 100)]
)
def test_priorities_out_of_range_are_the_last(priority, rank) -> None:
    """From 1 to 100."""
    classes = {"serviceClasses": [{"name": "c", "priority": priority}]}
    servers = {"servers": [{"name": "s", "model": "m", "class": "c"}]}
    document = {"system": {"serviceClassData": classes, "serverData": servers}}
    system = read(msgspec.json.encode(document))
    assert system.priority(system.servers["s"]) == rank


def test_all_errors_are_reported_at_once() -> None:
    """Each with its field and its value."""
    found = errors_of(
        {
            "system": {
                "acceleratorData": {"accelerators": [{"nme": "a", "cost": -1}]},
                "serverData": {"servers": [{"name": "x", "model": "m", "minNumReplicas": 1.5}]},
                "optimizerData": {"optimizer": {"saturationPolicy": "Fair"}},
                "milp": True,
            }
        }
    )
    told = "\n".join(found)
    assert "system.milp: Invalid value: unknown field" in told
    assert "system.acceleratorData.accelerators[0].nme: Invalid value: unknown field" in told
    assert "system.acceleratorData.accelerators[0].name: Required value" in told
    assert "system.acceleratorData.accelerators[0].cost: Invalid value: -1" in told
    assert "system.serverData.servers[0].minNumReplicas" in told
    assert 'system.optimizerData.optimizer.saturationPolicy: Unsupported value: "Fair"' in told


def test_names_are_unique() -> None:
    """Also profiles of a model on an accelerator."""
    profile = {
        "name": "m",
        "acc": "a",
        "decodeParms": {"alpha": 1, "beta": 1},
        "prefillParms": {"gamma": 1, "delta": 1},
    }
    found = errors_of(
        {
            "system": {
                "acceleratorData": {"accelerators": [{"name": "a"}, {"name": "b"}, {"name": "a"}]},
                "modelData": {"models": [profile, profile]},
            }
        }
    )
    assert found == [
        'system.acceleratorData.accelerators[2]: Duplicate value: "a"',
        'system.modelData.models[1]: Duplicate value: "m on a"',
    ]


def test_values_that_contradict_each_other_are_refused() -> None:
    """A maximum below the minimum, and a demand of two models."""
    servers = [
        {"name": "s", "model": "m", "demand": "d", "minNumReplicas": 3, "maxNumReplicas": 2},
        {"name": "t", "model": "n", "demand": "d"},
    ]
    assert errors_of({"system": {"serverData": {"servers": servers}}}) == [
        "system.serverData.servers[0].maxNumReplicas: Invalid value: 2: is less than minNumReplicas, 3",
        'system.serverData.servers[1].demand: Invalid value: "d": '
        "server s of this demand has another model or class",
    ]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"{", "is not JSON"),
        (b"[]", "must be an object with the field system"),
        (b"{}", "system: Required value"),
        (b'{"system": {"serverData": {"servers": [null]}}}', "must be of type object"),
        (b'{"a":' * 100_000, "JSON|nested"),
        (b'{"system": {"capacityData": {"count": [{"type": "a", "count": 1e400}]}}}', "not JSON|count"),
    ],
)
def test_other_documents_are_refused(data, told) -> None:
    """With a reason, whatever they are."""
    with pytest.raises(SystemErrors, match=told):
        read(data)


def test_more_candidates_than_can_be_planned_are_refused() -> None:
    """Each of 501 servers could run on each of 400 accelerators."""
    parms = {"decodeParms": {"alpha": 1, "beta": 1}, "prefillParms": {"gamma": 1, "delta": 1}}
    models = [{"name": "m", "acc": f"a{n}", **parms} for n in range(400)]
    servers = [{"name": f"s{n}", "model": "m"} for n in range(501)]
    found = errors_of({"system": {"modelData": {"models": models}, "serverData": {"servers": servers}}})
    assert len(found) == 1
    assert found[0].startswith("system.serverData.servers: Too many")
    assert "200400 candidates together; at most 200000" in found[0]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["system", "serverData", "servers", "name", "currentAlloc", "load", "optimizerData"]
            ),
            inner,
        )
    ),
)


@given(values)
def test_any_document_is_read_or_refused(value) -> None:
    """Never another error."""
    try:
        read(msgspec.json.encode(value))
    except SystemErrors as errors:
        assert errors.errors


def test_the_example_is_a_description() -> None:
    """Without errors."""
    assert len(read(EXAMPLE.read_bytes()).servers) == 4
