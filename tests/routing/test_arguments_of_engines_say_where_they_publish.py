"""An engine's own option says where it publishes KV events, if no annotation does."""

import json

import pytest

from headgate import api, routing

POOL = api.ObjectRef("ModelServer", "default", "pool")
ON = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": "tcp://*:5557", "topic": "kv-events"}
HERE = routing.KvEvents(port=5557)


def containers(*args, command=()):
    return {
        "containers": [{"name": "proxy"}, {"name": "engine", "command": list(command), "args": list(args)}]
    }


def option(**changed):
    return json.dumps(ON | changed)


@pytest.fixture(name="published")
def _published(server, pod):
    """Where the one Pod is taken to publish; what it says wrongly would be a problem of its pool."""

    def find(spec, of_pool=(), of_pod=()):
        pool = server()
        pool.metadata.annotations.update(of_pool)
        snapshot = routing.translate(
            [], [pool], [pod("a", metadata={"annotations": dict(of_pod)}, spec=spec)]
        )
        assert not snapshot.problems
        return next(iter(snapshot.pools[POOL].kv_events.values()), None)

    return find


SCRIPT = """set -e
exec vllm serve some/model --port 8000 \\
  --kv-events-config "{\\"enable_kv_cache_events\\":true,\\"publisher\\":\\"zmq\\",\\"endpoint\\":\\"tcp://*:5556\\",\
\\"topic\\":\\"kv@${POD_IP}@some/model\\"}" \\
  --data-parallel-size=4
"""


@pytest.mark.parametrize(
    ("args", "events"),
    [
        (["--kv-events-config", option()], HERE),
        ([f"--kv-events-config={option()}", "--port=8000"], HERE),
        (["--kv_events_config", option()], HERE),
        (["--kv-events-config", '{"enable_kv_cache_events": true}'], HERE),
        (
            ["--kv-events-config", '{"publisher": "zmq", "endpoint": "tcp://*:6000"}'],
            routing.KvEvents(port=6000),
        ),
        (["--kv-events-config", option(endpoint="tcp://[::]:5557")], HERE),
        (["--kv-events-config", option(endpoint="tcp://$(POD_IP):5557")], HERE),
        (
            ["--kv-events-config", option(replay_endpoint="tcp://*:5558")],
            routing.KvEvents(port=5557, replay_port=5558),
        ),
        (["--data-parallel-size", "8", "--kv-events-config", option()], routing.KvEvents(port=5557, ranks=8)),
        (["-dp=2", "--kv-events-config", option()], routing.KvEvents(port=5557, ranks=2)),
        (["-c", SCRIPT], routing.KvEvents(port=5556, ranks=4)),
    ],
)
def test_an_engine_that_listens_for_who_wants_events_is_listened_to(published, args, events):
    """In all the ways in which its option is written."""
    assert published(containers(*args)) == events


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--port=5557"],
        ["--kv-events-config"],
        ["--kv-events-config", "{"],
        ["--kv-events-config", "[]"],
        ["--kv-events-config", '{"publisher": "zmq", "more": ' + "[" * 20_000],
        ["--kv-events-config", option(endpoint=5557)],
        ["--kv-events-config", option(enable_kv_cache_events=False)],
        ["--kv-events-config", '{"endpoint": "tcp://*:5557"}'],
        ["--kv-events-config", option(publisher="null")],
        ["--kv-events-config", option(endpoint="tcp://indexer.default.svc:5557")],
        ["--kv-events-config", option(endpoint="tcp://127.0.0.1:5557")],
        ["--kv-events-config", option(endpoint="tcp://*:$(EVENTS_PORT)")],
        ["--kv-events-config", option(endpoint="tcp://*:65530")],
        ["--kv-events-config", option(), "--data-parallel-size", "many"],
        ["--kv-events-config", option(), "--data-parallel-size=100"],
        ["--kv-events-config", option(), "--data-parallel-size=4", "--data-parallel-rank=2"],
        ["--kv-events-config", option(), "--dp=4", "--dp-size=2"],
        ["-c", "vllm serve some/model --kv-events-config '{"],
        ["-c", " " * 70_000 + SCRIPT],
        ["--kv-events-config", option(), "x" * 70_000],
        [
            "-c",
            f"vllm serve a --kv-events-config '{option()}' & vllm serve b --kv-events-config '{option()}'",
        ],
    ],
)
def test_what_is_not_plain_is_left_alone(published, args):
    """Events are off, go elsewhere, or would have to be guessed at: what the cache holds is believed."""
    assert published(containers(*args)) is None


def test_annotations_go_before_arguments(published):
    """Of the Pod and of its pool; one of them may say that nobody listens."""
    engine = containers("--kv-events-config", option())
    name = "headgate.dev/kv-events"
    assert published(engine, of_pool={name: "tcp://*:6000"}) == routing.KvEvents(port=6000)
    assert published(engine, of_pool={name: "off"}) is None
    assert published(engine, of_pod={name: "off"}) is None
    assert published(engine, of_pool={name: "off"}, of_pod={name: "5557"}) == HERE


def test_the_option_may_be_in_the_command(published):
    """Not only in the arguments that follow it."""
    assert published(containers(command=["vllm", "serve", "m", "--kv-events-config", option()])) == HERE


def test_a_pool_of_several_ports_has_to_be_told(kit):
    """Its Pods have several engines, and arguments do not tell which has which port."""
    pod = kit.pod("a", spec=containers("--kv-events-config", option()))
    for notes, ports in (({}, []), ({"headgate.dev/kv-events": "tcp://*:5557"}, [5557, 5558])):
        pool = kit.translated(kit.pool("pool", 8000, 8001, notes=notes), pod).pools[kit.ref()]
        assert sorted(events.port for events in pool.kv_events.values()) == ports
    alone = kit.translated(kit.pool(), pod).pools[kit.ref()]
    assert list(alone.kv_events.values()) == [HERE]
