import pytest
from click.testing import CliRunner

from headgate.cli.simulate import simulate
from headgate.simulator import server as simulator_server
from headgate.simulator.server import KvEventsConfig


@pytest.fixture
def served(monkeypatch):
    """The ports that a command line asks for and the settings behind them, or what it is told."""
    listen = simulator_server.listen

    def make(*words):
        ports, made = [], []

        def listen_anywhere(host, port):
            ports.append(port)
            return listen(host, 0)

        def run(all_served, on_listening):
            on_listening()
            made.extend(all_served)

        monkeypatch.setattr(simulator_server, "listen", listen_anywhere)
        monkeypatch.setattr(simulator_server, "run", run)
        result = CliRunner().invoke(simulate, ["engine", "--model", "tiny", *words])
        ranks = [(each.settings.data_parallel_rank, each.settings.data_parallel_size) for each in made]
        return ports, ranks, result.output

    return make


@pytest.mark.parametrize("words", [[], ["--data-parallel-external-lb"]])
def test_each_rank_has_the_next_port(served, words):
    """The first has that of the command line; each is told."""
    ports, ranks, told = served("--port", "9000", "--data-parallel-size", "3", *words)
    assert ports == [9000, 9001, 9002]
    assert ranks == [(0, 1), (1, 1), (2, 1)]
    assert told.count("simulating tiny") == 3


@pytest.mark.parametrize("size", [[], ["--data-parallel-size", "3"]])
def test_a_rank_can_be_served_alone(served, size):
    """On the port that its process is given."""
    words = ("--engine", "sglang", "--role", "prefill", "--port", "9000", "--bootstrap-port", "9100")
    ports, ranks, _ = served(*words, *size, "--data-parallel-rank", "2")
    assert (ports, ranks) == ([9000, 9100], [(2, 1)])


def test_ranks_are_behind_one_port_if_asked(served):
    """The server chooses between them."""
    words = ("--data-parallel-size", "3", "--data-parallel-internal-lb")
    assert served("--port", "9000", *words)[:2] == ([9000], [(0, 3)])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--data-parallel-rank", "2"], "there is no rank 2 with --data-parallel-size 2"),
        (["--port", "65535"], "have port 65536"),
        (
            ["--data-parallel-internal-lb", "--data-parallel-rank", "1"],
            "cannot be combined with --data-parallel-rank",
        ),
        (
            ["--data-parallel-internal-lb", "--data-parallel-external-lb"],
            "cannot be combined with --data-parallel-external-lb",
        ),
    ],
)
def test_ranks_that_cannot_be_are_refused(served, words, told):
    """The error says which, and of how many."""
    assert told in served("--data-parallel-size", "2", *words)[2]


async def test_a_rank_of_its_own_tells_its_number(serve):
    """In metrics, in cache events, and to who asks for a rank that is elsewhere."""
    events = KvEventsConfig(endpoint="tcp://127.0.0.1:0")
    body = {"model": "tiny", "prompt": "a", "max_tokens": 1}
    async with serve(data_parallel_rank=1, kv_events=events) as server:
        statuses = [
            (
                await server.client.post("/v1/completions", json=body, headers={"x-data-parallel-rank": rank})
            ).status_code
            for rank in ("0", "1", "2")
        ]
        page = (await server.client.get("/metrics")).text
        sources = (await server.client.get("/kv_event_sources")).json()
    assert statuses == [400, 200, 400]
    assert 'vllm:prompt_tokens_total{engine="1",model_name="tiny"} 1.0' in page
    assert 'engine="0"' not in page
    assert [source["data_parallel_rank"] for source in sources] == [1]
