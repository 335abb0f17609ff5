"""A flow pays for what an engine does for it, and what is not known of that is as it was believed."""

import pytest

from headgate.gateway.queueing import charging
from headgate.gateway.usage import Usage
from headgate.scheduling import Request

REQUEST = Request(model="m", prompt_tokens=1000, output_tokens=100)


@pytest.mark.parametrize(
    ("counted", "work"),
    [
        (Usage(prompt_tokens=1200, completion_tokens=50, cache_read_input_tokens=1100), 150),
        (Usage(prompt_tokens=1200, completion_tokens=50, cache_read_input_tokens=0), 1250),
        (Usage(prompt_tokens=1000, completion_tokens=50), 250),
        (None, 300),
    ],
)
def test_what_an_engine_does_not_say_of_its_cache_is_believed(counted, work):
    """Of 1000 tokens 800 were believed to be there: whoever says nothing does not make them work."""
    assert charging.taken(REQUEST, 300, counted).work == work


def test_of_a_request_that_did_not_wait_nothing_is_believed():
    """It was taken for all of its prompt."""
    assert charging.taken(REQUEST, 1100, None).work == 1100
