"""`headgate flow` tells of the queues of a gateway, with its workers taken together."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import msgspec
import pytest
from click.testing import CliRunner, Result

from headgate import admin_token
from headgate.cli import main
from headgate.dataplane.queueing.queue_shown import QueueShown
from headgate.flow.queue import BandRow, FlowRow, QueueView, RequestRow


def band(priority: int, **flows: int) -> BandRow:
    """A band in which each flow has so many requests of 100 tokens."""
    return BandRow(
        priority=priority,
        fairness="deficit-round-robin",
        ordering="fcfs-ordering-policy",
        requests=sum(flows.values()),
        bytes=10 * sum(flows.values()),
        work=100 * sum(flows.values()),
        max_requests=50,
        max_bytes=0,
        oldest_s=2.5,
        has_room=False,
        credit=0.0,
        flows=[
            FlowRow(
                name=name,
                requests=count,
                bytes=10 * count,
                work=100 * count,
                weight=2.0,
                oldest_s=2.5,
                standing=f"deficit {count}",
            )
            for name, count in flows.items()
        ],
        first=[
            RequestRow(flow=name, work=100, waits_s=2.5, why="the pool has no capacity") for name in flows
        ],
    )


def queue(worker: int, *bands: BandRow, saturation: float = 0.5, why: str = "") -> QueueShown:
    return QueueShown(
        worker=worker,
        is_on=True,
        endpoints=2,
        in_flight=3,
        why=why,
        queue=QueueView(
            requests=sum(each.requests for each in bands),
            bytes=sum(each.bytes for each in bands),
            work=sum(each.work for each in bands),
            saturation=saturation,
            drain_per_s=50.0,
            is_without_endpoints=False,
            bands=bands,
        ),
    )


PAGE = {
    "default/busy": [
        queue(0, band(1, chat=2), band(0, batch=5, odd=1), saturation=1.25, why="the pool has no capacity"),
        queue(1, band(0, batch=4)),
    ],
    "default/idle": [queue(0), queue(1)],
    "InferencePool/default/base": [queue(0)],
    "no_answer": ["worker 2 is starting"],
}


@pytest.fixture
def gateway() -> Iterator[str]:
    """The address of what answers as an admin port does."""
    answer = msgspec.json.encode(PAGE)

    class Admin(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/debug/flow"
            self.send_response(200 if found else 404)
            self.send_header("content-length", str(len(answer) if found else 0))
            self.end_headers()
            if found:
                self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Admin) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["flow", *arguments])


def test_workers_are_taken_together(gateway: str) -> None:
    """Counts are sums; each priority and each flow is there once, the most important first."""
    found = json.loads(run("--gateway", gateway, "-o", "json").stdout)
    busy = found["default/busy"]
    assert (busy["in_flight"], busy["endpoints"], busy["why"]) == (6, 2, "the pool has no capacity")
    assert (busy["queue"]["requests"], busy["queue"]["saturation"]) == (12, 1.25)
    assert [(each["priority"], each["requests"]) for each in busy["queue"]["bands"]] == [(1, 2), (0, 10)]
    batch, odd = busy["queue"]["bands"][1]["flows"]
    assert (batch["name"], batch["requests"], batch["work"]) == ("batch", 9, 900)
    assert (odd["name"], odd["requests"]) == ("odd", 1)


def test_people_read_who_waits_and_why(gateway: str) -> None:
    """Of each pool a line, and below it bands and flows that wait."""
    text = run("--gateway", gateway).stdout
    assert "default/busy: endpoints 2, in flight 6, saturation 1.25, waiting 12\n" in text
    assert "a new request would be queued: the pool has no capacity" in text
    assert "priority 1: 2 waiting (limit: 50), the oldest for 2.5 s; deficit-round-robin" in text
    assert "batch  9        900     2       2.5s    deficit 5; deficit 4\n" in text
    assert "default/idle: endpoints 2, in flight 6, saturation 0.50, waiting 0\n" in text


def test_one_pool_may_be_asked_for(gateway: str) -> None:
    """By its name; another is refused with those that there are."""
    assert "default/busy" not in run("--gateway", gateway, "--pool", "default/idle").stdout
    refused = run("--gateway", gateway, "--pool", "default/none")
    assert refused.exit_code == 1
    assert "no pool 'default/none'; it has: InferencePool/default/base, default/busy" in refused.output


@pytest.mark.parametrize("name", ["default/base", "base", "InferencePool/default/base"])
def test_a_pool_may_be_asked_for_without_its_kind(gateway: str, name: str) -> None:
    """An InferencePool as well as a ModelServer, by as much of its name as is known."""
    found = run("--gateway", gateway, "--pool", name, "-o", "json")
    assert list(json.loads(found.stdout)) == ["InferencePool/default/base"]
    assert run("--gateway", gateway, "--pool", "ase").exit_code == 1


def test_a_gateway_that_cannot_be_asked() -> None:
    """The error says which address was meant."""
    refused = run("--gateway", "127.0.0.1:1")
    assert refused.exit_code == 1
    assert "no response from the gateway at http://127.0.0.1:1" in refused.output


def test_what_is_no_admin_port(gateway: str) -> None:
    """Whatever else answers there."""
    refused = run("--gateway", f"{gateway}/somewhere")
    assert "returned 404" in refused.output
    assert "Is it the admin port of a gateway?" in refused.output


@pytest.mark.parametrize(
    ("status", "told"), [(401, "Set HEADGATE_ADMIN_TOKEN to a key"), (404, "Is it the admin")]
)
def test_a_hint_fits_its_status(status: int, told: str) -> None:
    """A port that asks for a credential is the right one."""
    hint = admin_token.hint(status, "http://localhost:8081")
    assert hint.startswith(told)
    assert ("admin port" in hint) == (status == 404)
