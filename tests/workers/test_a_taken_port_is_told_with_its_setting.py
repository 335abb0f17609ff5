"""A port that is in use is named, with what it is for and the setting that moves it."""

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from headgate import serving

HOSTS = ("127.0.0.1", "0.0.0.0", "::")


@pytest.fixture
def host() -> str:
    return "0.0.0.0"


@pytest.fixture
def taken(host) -> Iterator[int]:
    """A port of 127.0.0.1 that another program has, such as a Prometheus that listens on all addresses."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family, dualstack_ipv6=":" in host) as sock:
        yield sock.getsockname()[1]


def fails(*words: str) -> str:
    """What a command that cannot start says."""
    done = subprocess.run(
        [sys.executable, "-m", "headgate", *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize("host", HOSTS)
def test_a_port_is_taken_whatever_its_host(taken):
    """Of this machine, or of all addresses, by IPv4 or by both."""
    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{taken}: Address already in use"):
        serving.listening_socket("127.0.0.1", taken)


@pytest.mark.parametrize(
    ("flag", "setting", "purpose"),
    [
        ("port", "listen.port", "the inference API"),
        ("metrics-port", "metrics.port", "the metrics page"),
        ("admin-port", "admin.port", "the admin page"),
    ],
)
def test_ports_of_a_gateway(taken, kubeconfig, flag, setting, purpose):
    """One line, and exit code 1."""
    ports = {"port": 0, "metrics-port": 0, "admin-port": 0, flag: taken}
    flags = [word for name, port in ports.items() for word in (f"--{name}", str(port))]
    assert fails("gateway", "--kubeconfig", str(kubeconfig), *flags) == (
        f"Error: cannot listen on 127.0.0.1:{taken} for {purpose}: Address already in use; "
        f"choose another port with {setting} (--{flag})\n"
    )


def test_the_port_of_another_gateway(kubeconfig):
    """Although its workers share their port with each other, no second gateway may join them."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        flags = ["--port", str(port), "--metrics-port", "0", "--admin-port", "0"]
        assert f"cannot listen on 127.0.0.1:{port} for the inference API: Address already in use" in fails(
            "gateway", "--kubeconfig", kubeconfig, *flags
        )


def test_an_address_of_another_machine(kubeconfig):
    """Then it is the host that has to change."""
    flags = ["--metrics-host", "203.0.113.1", "--port", "0", "--metrics-port", "0", "--admin-port", "0"]
    assert fails("gateway", "--kubeconfig", str(kubeconfig), *flags) == (
        "Error: cannot listen on 203.0.113.1:0 for the metrics page: Cannot assign requested address; "
        "choose another address with metrics.host (--metrics-host)\n"
    )


def test_the_port_of_an_api_server(taken, tmp_path):
    """One line, and exit code 1."""
    assert fails("apiserver", "--state", str(tmp_path), "--port", str(taken)) == (
        f"Error: cannot listen on 127.0.0.1:{taken} for the Kubernetes API: Address already in use; "
        "choose another port with --port\n"
    )


@pytest.mark.parametrize("flag", ["--port", "--bootstrap-port"])
def test_ports_of_a_simulated_engine(taken, flag):
    """The bootstrap port is told from the other one."""
    engine = ["simulate", "engine", "--engine", "sglang", "--role", "prefill"]
    ports = {"--port": "0", "--bootstrap-port": "0", flag: str(taken)}
    said = fails(*engine, *(word for pair in ports.items() for word in pair))
    assert f"cannot listen on 127.0.0.1:{taken} for " in said
    assert said.endswith(f"Address already in use; choose another address with --host or {flag}\n")


def test_the_ports_of_a_fleet(taken, tmp_path):
    """The port of the first engine moves all of them."""
    said = fails("simulate", "fleet", "--port", str(taken))
    assert f"cannot listen on 127.0.0.1:{taken} for an engine of the fleet: Address already in use" in said
    assert "--port" in said


@pytest.mark.parametrize("name", ["nohost.invalid", "no..host"])
def test_a_host_without_an_address_is_no_matter_of_the_port(kubeconfig, tmp_path, name):
    """The message names the setting of the host, of a gateway and of a whole machine."""
    ports = ("--port", "0", "--metrics-port", "0", "--admin-port", "0")
    told = fails("gateway", "--kubeconfig", str(kubeconfig), "--host", name, *ports)
    assert told.startswith(f"Error: {name} has no address (")
    assert told.endswith("); set listen.host (--host)\n")
    told = fails("up", "--state", str(tmp_path / "state"), "--host", name)
    assert f"{name} has no address (" in told
    assert "); set --host, HEADGATE_LISTEN_HOST or listen.host in the file of --gateway-config" in told
