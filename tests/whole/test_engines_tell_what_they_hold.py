"""The example of docs/prefix-cache.md: engines publish what they hold, and the gateway knows it."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.whole

EXAMPLE = Path(__file__).parents[2] / "examples" / "kv-events"
STORY = "Once upon a time there was an engine that told everybody what it held in its cache. " * 60


def test_the_gateway_listens_to_engines_that_publish(new_machine, eventually):
    """A prompt that was sent through the gateway is known to be where it is, and is found there again."""
    machine = new_machine(EXAMPLE).start()

    def caches():
        (pool,) = machine.get("/debug/endpoints", "admin-port").json().values()
        return [endpoint["prefix"] for endpoint in pool]

    eventually(lambda: [cache["source"] for cache in caches()] == ["events", "events"])
    usages = [
        machine.ask("sim-kv", messages=[{"role": "user", "content": STORY}]).json()["usage"] for _ in range(4)
    ]
    assert usages[-1]["prompt_tokens_details"]["cached_tokens"] > 1000
    eventually(lambda: max(cache["events"]["blocks"] for cache in caches()) > 60)
    assert all(cache["events"]["is_complete"] for cache in caches())
    assert all(cache["events"]["messages"]["missed"] == 0 for cache in caches())
