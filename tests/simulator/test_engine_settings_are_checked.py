import msgspec
import pytest

from headgate.simulator.model import ConfigError, Engine, RequestTooLongError
from headgate.simulator.server import ServerSettings


def test_a_cache_smaller_than_one_request_is_refused(small_engine):
    """Such an engine could never finish its longest request; the message says what to change."""
    with pytest.raises(
        ConfigError, match=r"kv_blocks: 3 blocks of 4 tokens .* raise kv_blocks or lower max_model_len"
    ):
        small_engine(kv_blocks=3)


def test_every_bad_number_is_named(small_engine):
    """All problems come at once."""
    with pytest.raises(ConfigError) as caught:
        small_engine(max_num_seqs=0, block_size=-1, max_waiting=-5)
    for name in ("max_num_seqs", "block_size", "max_waiting"):
        assert f"{name}: must be at least" in str(caught.value)


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_costs_are_finite_and_not_negative(small_engine, seconds):
    """A time that runs backwards or never ends is no cost."""
    costs = msgspec.structs.replace(small_engine().costs, per_kv_token_s=seconds)
    with pytest.raises(ConfigError, match=r"costs\.per_kv_token_s"):
        small_engine(costs=costs)


def test_a_request_longer_than_the_context_names_the_numbers(small_engine, request_of):
    """The message has the context, the sum, and both parts."""
    with pytest.raises(
        RequestTooLongError, match=r"64 tokens.*70 tokens \(60 in the prompt, 10 in the completion\)"
    ):
        Engine(small_engine()).submit(request_of("a", 60, 10), 0.0)


@pytest.mark.parametrize(("prompt_tokens", "output_tokens"), [(0, 1), (1, 0)])
def test_a_request_has_at_least_one_token_of_each(request_of, prompt_tokens, output_tokens):
    """A request without prompt or without answer is no request."""
    with pytest.raises(ValueError, match="request a: prompt_tokens and output_tokens must be at least 1"):
        request_of("a", prompt_tokens, output_tokens)


@pytest.mark.parametrize("models", [(), ("",)])
def test_a_server_needs_a_model_name(small_engine, models):
    """A server without a name could serve nobody."""
    with pytest.raises(ValueError, match="models: at least one served name is needed"):
        ServerSettings(engine=small_engine(), models=models)
