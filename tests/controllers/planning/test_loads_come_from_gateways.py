"""The load of a model is the sum over the pools that reach its variants, by the share that is theirs."""

import types

from headgate import api
from headgate.controllers.planning.gateway_loads import GatewayLoads
from headgate.controllers.planning.loads import Demand
from headgate.observe.signals import PoolLoad

WHOLE, SHARED = (api.ObjectRef("ModelServer", "default", name) for name in ("whole", "shared"))


def test_what_engines_have_not_begun_is_added_up():
    """With the other signals; of a pool that others share, in part."""
    told = {
        WHOLE: PoolLoad(
            is_known=True,
            metrics={"headgate:arrivals": 2.0, "headgate:requests_running": 10.0},
            unbegun_tokens=3000.0,
            prompt_squares=0.0,
        ),
        SHARED: PoolLoad(
            is_known=True,
            metrics={
                "headgate:arrivals": 4.0,
                "headgate:requests_running": 8.0,
                "headgate:prompt_tokens": 4000.0,
            },
            unbegun_tokens=500.0,
            prompt_squares=6.0,
        ),
    }
    loads = GatewayLoads(types.SimpleNamespace(of=told.__getitem__))
    load = loads.now(Demand("llama", "default", pools={WHOLE: 1.0, SHARED: 0.5}))
    assert (load.arrivals_per_s, load.in_engines, load.unbegun_tokens) == (4.0, 14, 3250.0)
    assert load.prompt_spread == 3.0 * 4.0 / 2.0**2 - 1
