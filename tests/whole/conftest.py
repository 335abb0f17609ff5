"""A whole Headgate, started as a user starts it, with a directory and ports of its own."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

# The hub of the tests of downloads.
sys.path.insert(0, str(Path(__file__).parents[1] / "downloads" / "driver"))

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"
START_S = 180.0
LIMIT_S = 120.0
"""For what takes a second or two on a machine that has nothing else to do."""
TEST_S = 600.0
"""For a test, with the start of its machine."""
_http = httpx2.Client(trust_env=False, verify=False, limits=httpx2.Limits(max_keepalive_connections=0))


Ports = Callable[[], dict[str, int]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TEST_S))


@dataclass
class Machine:
    """One `headgate up`, and the clients of a user who looks at it."""

    state: Path
    manifests: Path
    ports: dict[str, int]
    """By the flags that they are given with."""
    flags: tuple[str, ...] = ()
    process: subprocess.Popen[str] | None = None
    output: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports['port']}"

    def command(self, program: Sequence[str] = (sys.executable, "-m", "headgate")) -> list[str]:
        flags = [word for name, port in self.ports.items() for word in (f"--{name}", str(port))]
        return [
            *program,
            "up",
            str(self.manifests),
            "--state",
            str(self.state),
            *flags,
            *self.flags,
        ]

    def start(
        self,
        *,
        program: Sequence[str] = (sys.executable, "-m", "headgate"),
        cwd: Path | None = None,
        flags: Sequence[str] = (),
    ) -> "Machine":
        """Returns once the machine says that it is up."""
        self.process = subprocess.Popen(
            [*self.command(program), *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=cwd,
        )
        assert self.process.stdout is not None
        self.output = ""
        deadline = time.monotonic() + START_S
        for line in self.process.stdout:
            self.output += line
            if "Ctrl-C stops it" in line:
                return self
            assert time.monotonic() < deadline, self.output
        raise AssertionError(f"headgate up ended with {self.process.wait()}:\n{self.output}")

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Sends a signal and waits; returns the exit code."""
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.send_signal(number)
        self.output += self.process.stdout.read()
        code = self.process.wait(LIMIT_S)
        self.process.stdout.close()
        self.process = None
        return code

    def kubectl(self, *words: str, text: str | None = None, fails: bool = False) -> str:
        """What kubectl prints; asserts that it succeeds, or with `fails` that it does not."""
        binary = os.environ.get("HEADGATE_KUBECTL") or shutil.which("kubectl")
        if binary is None:
            pytest.skip("there is no kubectl; the report's header says how to get one")
        done = subprocess.run(
            [
                binary,
                "--kubeconfig",
                self.state / "kubeconfig",
                "--cache-dir",
                self.state / "kubectl-cache",
                *words,
            ],
            input=text,
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def get(self, path: str, port: str = "port") -> httpx2.Response:
        return _http.get(f"http://127.0.0.1:{self.ports[port]}{path}", timeout=LIMIT_S)

    def ask(self, model: str = "sim-8b", tokens: int = 4, **more: object) -> httpx2.Response:
        body = {
            "model": model,
            "max_tokens": tokens,
            "messages": [{"role": "user", "content": "Hello"}],
            **more,
        }
        return _http.post(f"{self.url}/v1/chat/completions", json=body, timeout=LIMIT_S)

    def endpoints(self, pool: str = "default/sim-8b") -> list[str]:
        """Names of the endpoints that the gateway has in rotation."""
        return [
            each["name"] for each in self.get("/debug/config", "admin-port").json()["pools"].get(pool, [])
        ]


def wait_until(holds: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Polls until something holds."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < limit_s, f"{holds} did not hold within {limit_s} s"
        time.sleep(0.01)


@pytest.fixture
def eventually() -> Callable[..., None]:
    return wait_until


@pytest.fixture(scope="session")
def ports(unused_tcp_port_factory: Callable[[], int]) -> Ports:
    """Makes the ports of a machine."""
    names = ("port", "apiserver-port", "metrics-port", "admin-port")
    return lambda: {name: unused_tcp_port_factory() for name in names}


@pytest.fixture(scope="session")
def machine_of(ports: Ports) -> Callable[[Path, Path], Machine]:
    """Makes a machine from its directory and its manifests; whoever starts it stops it."""
    return lambda state, manifests: Machine(state, manifests, ports())


@pytest.fixture
def new_machine(tmp_path: Path, ports: Ports) -> Iterator[Callable[..., Machine]]:
    """Makes machines that are stopped at the end of the test; each may be started several times."""
    machines: list[Machine] = []

    def make(manifests: Path = QUICKSTART) -> Machine:
        machine = Machine(tmp_path / f"state-{len(machines)}", manifests, ports())
        machines.append(machine)
        return machine

    yield make
    for machine in machines:
        if machine.process is not None:
            machine.stop(signal.SIGTERM)


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory, ports: Ports) -> Iterator[Machine]:
    """A machine with the quickstart, for tests that leave it as they found it."""
    machine = Machine(tmp_path_factory.mktemp("machine") / "state", QUICKSTART, ports()).start()
    yield machine
    if machine.process is not None:
        machine.stop()


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory, ports: Ports) -> Iterator[Machine]:
    """A machine that tests end in their ways, one after the other."""
    machine = Machine(tmp_path_factory.mktemp("mortal") / "state", QUICKSTART, ports())
    yield machine
    if machine.process is not None:
        machine.stop(signal.SIGTERM)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, ports: Ports) -> Iterator[Machine]:
    """`make up EXAMPLE=examples/model`, with a directory and ports of its own."""
    examples = QUICKSTART.parent
    flags = ("--images", str(examples / "images" / "simulated.yaml"))
    state = tmp_path_factory.mktemp("models") / "state"
    machine = Machine(state, examples / "model", ports(), flags).start()
    yield machine
    machine.stop(signal.SIGTERM)
