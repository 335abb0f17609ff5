"""Exchanges reports with the other gateways or pickers that use the same endpoints.

Given the ledger and the prefix index of a process, it finds the other processes by a fixed list of addresses
or by their Leases, and keeps one TCP connection to each for its own reports. What others report goes to
`fleet.sharing`. No request waits for any of this, and none fails because of it.
"""

from headgate.peers.metrics import add_metrics
from headgate.peers.peers import Peers
from headgate.peers.settings import ConfigurationError, Settings, address_problems, is_loopback

__all__ = ["ConfigurationError", "Peers", "Settings", "add_metrics", "address_problems", "is_loopback"]
