"""The expected cache hit of a conversation's next turn is close to the simulated engine's."""

import random
import types

import msgspec

from headgate import scheduling
from headgate.fleet.prefix import hashing
from headgate.simulator.model import PROFILES
from headgate.simulator.server import ServerSettings, listen, running

ANSWER_TOKENS = 500


def message(role, rng, words):
    said = " ".join("".join(rng.choices("abcdefghij", k=rng.randint(2, 9))) for _ in range(words))
    return {"role": role, "content": said}


def cached_tokens(gateway, kind):
    return gateway.metric("headgate_gateway_cached_tokens_total", kind=kind)


async def test_a_turn_is_held_up_to_the_end_of_the_answer_before(start_gateway):
    """To within the block in which that ends, and never further."""
    rng = random.Random(2)
    engine = msgspec.structs.replace(PROFILES["fast"].config, kv_blocks=4000, max_model_len=20_000)
    sock = listen("127.0.0.1", 0)
    async with running(ServerSettings(engine=engine, models=("m",), drain_s=0), sock):
        gateway = await start_gateway()
        gateway.serve([types.SimpleNamespace(port=sock.getsockname()[1])])
        (pool,) = gateway.shell.plane.pools.values()
        pool.policy = scheduling.PredictedFirstToken(gateway.shell.plane.prefixes)
        told, before = [], (0, 0)
        messages = [message("system", rng, 400)]
        for _ in range(6):
            messages.append(message("user", rng, 80))
            body = {"model": "m", "messages": messages, "max_tokens": ANSWER_TOKENS, "ignore_eos": True}
            answer = (await gateway.ask(body)).json
            messages.append(answer["choices"][0]["message"])
            counts = tuple(cached_tokens(gateway, kind) for kind in ("believed", "reported"))
            told.append((counts[0] - before[0], counts[1] - before[1]))
            before = counts
        block_tokens = hashing.BLOCK_BYTES / gateway.shell.plane.sizes.prompts.bytes_per_token("m")
    assert told[0] == (0, 0)
    assert len(told) == 6
    for believed, cached in told[1:]:
        assert 0 <= cached - believed < 1.2 * block_tokens
