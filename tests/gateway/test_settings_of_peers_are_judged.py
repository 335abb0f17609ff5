"""Settings of peers that nobody could connect by, or that let strangers in, are refused with the fix."""

import pytest

from headgate.gateway import GatewaySettings
from headgate.gateway.settings.conflicts import conflicts


def found(**values):
    return [problem for problem in conflicts(GatewaySettings().replace(**values)) if "peers" in problem[0]]


def test_without_peers_nothing_is_judged():
    """The other settings have no effect then."""
    assert not found()
    assert not found(peers_host="0.0.0.0", workers_count=4)


def test_peers_of_one_machine_need_no_token():
    """Loopback addresses are enough."""
    assert not found(peers_addresses=("127.0.0.1:9004", "[::1]:9005", "localhost:9006"))


@pytest.mark.parametrize(
    ("values", "path", "why"),
    [
        ({"peers_addresses": ("10.0.0.7:9004",)}, "peers.addresses", "set peers.token_file"),
        ({"peers_discovery": True, "peers_host": "0.0.0.0"}, "peers.host", "set peers.token_file"),
        ({"peers_addresses": ("localhost",)}, "peers.addresses", "is not host:port"),
        ({"peers_discovery": True, "workers_count": 2}, "peers.discovery", "set workers.count to 1"),
    ],
)
def test_each_problem_is_named(values, path, why):
    """The path of the setting, and what to do."""
    problems = dict(found(**values))
    assert why in problems[path]


def test_a_token_opens_other_machines():
    """With it, any address will do."""
    assert not found(peers_addresses=("10.0.0.7:9004",), peers_host="0.0.0.0", peers_token_file="/etc/token")
