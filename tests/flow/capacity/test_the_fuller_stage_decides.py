"""Where prefill and decode are apart, there is room where both have it."""

import pytest

from headgate import routing
from headgate.fleet import EngineReading
from headgate.flow.capacity import CapacitySettings, make
from headgate.flow.capacity.stages import partition


@pytest.mark.parametrize(
    ("role", "prefills", "decodes"),
    [
        ("prefill", True, False),
        ("decode", False, True),
        ("", False, True),
        ("both", True, True),
        ("prefill-decode", True, True),
        ("encode-prefill-decode", True, True),
        ("encode-prefill", True, False),
        ("encode", False, False),
        ("gardener", False, False),
    ],
)
def test_a_role_says_which_stages_an_endpoint_is_in(load_of, role, prefills, decodes):
    """Those that say nothing decode; encoders and what nobody knows are in none."""
    load = load_of(role=role)
    other = load_of(role="prefill")
    prefill, decode = partition([load, other], None)
    assert (load in prefill, load in decode) == (prefills, decodes)


def test_where_nobody_has_a_role_there_are_no_stages(load_of):
    """The pool is judged as a whole."""
    loads = [load_of(5, 0.0), load_of(0, 0.0)]
    assert partition(loads, None) == ([], [])
    capacity = make(CapacitySettings(detector="utilization-detector"))
    capacity.follow(loads)
    assert capacity.by_stage(0.0) == {"all": 0.5}


def test_a_full_stage_closes_the_pool(load_of):
    """F18: prefill is saturated and decode idle."""
    capacity = make(CapacitySettings(detector="utilization-detector"))
    capacity.follow([load_of(5, 0.0, role="prefill"), load_of(0, 0.0, role="decode")])
    assert capacity.by_stage(0.0) == {"prefill": 1.0, "decode": 0.0}
    assert capacity.saturation(0.0) == 1.0
    assert not capacity.has_room(0, 0.0)


def test_the_roles_of_the_pools_object_go_before_labels(load_of):
    """Kthena's workload selector says it as well."""
    prefill, decode = load_of(5, 0.0), load_of(0, 0.0)
    roles = {
        prefill.endpoint: routing.Role(prefills=True, decodes=False, group="g"),
        decode.endpoint: routing.Role(prefills=False, decodes=True, group="g"),
    }
    capacity = make(CapacitySettings(detector="utilization-detector"))
    capacity.follow([prefill, decode], routing.PrefillDecode(connector="nixl", roles=roles))
    assert capacity.by_stage(0.0) == {"prefill": 1.0, "decode": 0.0}


def test_stages_come_and_go_with_their_endpoints(load_of):
    """Bands that are known stay known."""
    capacity = make(CapacitySettings())
    capacity.follow_bands([1, 0])
    capacity.follow([load_of(role="prefill"), load_of(role="decode")])
    assert set(capacity.by_stage(0.0)) == {"prefill", "decode"}
    capacity.follow([load_of()])
    assert set(capacity.by_stage(0.0)) == {"all"}
    assert capacity.has_room(0, 0.0)


def test_a_stage_whose_endpoints_all_rest_is_known_again_afterwards(load_of):
    """Without it the pool is judged by the other; what was seen of its engines counts when they are back."""
    prefill, decode = load_of(role="prefill"), load_of(role="decode")
    capacity = make(CapacitySettings())
    capacity.follow([prefill, decode])
    for _ in range(4):
        prefill.book(0, 0, 0.0)
    prefill.read(EngineReading(at=0.0, waiting=2, running=2, kv_usage=0.95))
    assert not capacity.has_room(0, 0.0)
    capacity.follow([decode], None, [prefill])
    assert capacity.by_stage(0.0) == {"decode": 0.0}
    assert capacity.has_room(0, 0.0)
    capacity.follow([prefill, decode])
    prefill.read(None)
    assert not capacity.has_room(0, 0.0)
