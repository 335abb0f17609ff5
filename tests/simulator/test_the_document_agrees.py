import re
from pathlib import Path

import pytest

from headgate.cli.simulate import simulate
from headgate.simulator.model import DEFAULT_PROFILE, PROFILES

DOCUMENT = (Path(__file__).parents[2] / "docs" / "simulated-engine.md").read_text()


def seconds(cell: str) -> float:
    value, _, unit = cell.partition(" ")
    return float(value) * {"": 1.0, "ms": 1e-3, "µs": 1e-6}[unit]


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_the_profile_table_has_the_constants(profile):
    """Each row of the table says what the code says."""
    row = next(line for line in DOCUMENT.splitlines() if line.startswith(f"| `{profile.name}` |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    costs, config = profile.config.costs, profile.config
    assert cells[1] == profile.description
    assert [seconds(cell) for cell in cells[2:7]] == pytest.approx(
        [
            costs.base_s,
            costs.per_decode_sequence_s,
            costs.per_kv_token_s,
            costs.per_prefill_token_s,
            costs.per_start_s,
        ]
    )
    assert cells[7:] == [str(config.max_num_seqs), str(config.max_model_len), str(config.kv_blocks)]
    assert config.block_size == 16


def test_the_default_profile_is_named():
    """The document, the option and the model name one default profile."""
    option = next(option for option in simulate.commands["engine"].params if option.name == "profile")
    assert option.default == DEFAULT_PROFILE
    assert f"The default is `{DEFAULT_PROFILE}`." in DOCUMENT


def test_the_documented_options_exist():
    """Every option that the document mentions is one of the commands that serve; where it tells how a
    simulated engine stands in for a real one, it mentions options of that."""
    options = [*simulate.commands["engine"].params, *simulate.commands["fleet"].params]
    known = {name for option in options for name in [*option.opts, *option.secondary_opts]} | {"--help"}
    before, _, real = DOCUMENT.partition("\n### In place of a real engine\n")
    assert real
    ours = before + real.partition("\n##")[2]
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", ours)) <= known


async def test_the_documented_metrics_are_those_of_the_page(serve, fast):
    """Neither lists a metric that the other does not have."""
    async with serve(engine=fast(draft_tokens=1)) as server:
        page = (await server.client.get("/metrics")).text
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))
    assert set(re.findall(r"`(vllm:\w+)`", DOCUMENT)) == set(kinds)
