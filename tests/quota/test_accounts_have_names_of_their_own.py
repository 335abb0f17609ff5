"""Keys in Redis: models share Kthena's, and no model can have the name of something else."""

import pytest

from headgate.quota import redis_script

MODEL = "kthena:ratelimit:{}"


@pytest.mark.parametrize("name", ["chat", "meta/llama", "tenant/team-a/day", "headgate:ratelimit:x"])
def test_a_model_has_the_key_that_kthena_gives_it(name):
    """Whatever the name of its route; whoever may write a ModelRoute can choose any name of a model."""
    assert redis_script.bucket(name, "default/route") == MODEL.format(name)


@pytest.mark.parametrize("model", [None, ""])
@pytest.mark.parametrize("name", ["default/adapters", "tenant/team-a/day"])
def test_what_has_no_model_has_a_key_of_its_own(model, name):
    """Limits of tenants, and routes with adapters only: a model of that name would use up their tokens."""
    key = redis_script.bucket(model, name)
    assert key != redis_script.bucket(name, "default/route")
    assert not key.startswith(MODEL.format(""))
