"""The proxies under comparison, with a common interface: install, start in front of engines, stop.

Each keeps its defaults if possible; settings are explained where they are set. All log to files, so that each
bears the cost of logging.
"""

from proxies.envoy import Envoy
from proxies.headgate import Headgate
from proxies.litellm import LiteLLM
from proxies.nginx import Nginx
from proxies.processes import CACHE, ROOT, Proxy, UnavailableError, wait_until_listening
from proxies.routers import SglangRouter, Smg, VllmRouter

__all__ = [
    "CACHE",
    "PROXIES",
    "ROOT",
    "Headgate",
    "Nginx",
    "Proxy",
    "UnavailableError",
    "wait_until_listening",
]

_ALL: tuple[type[Proxy], ...] = (Headgate, Nginx, Envoy, VllmRouter, SglangRouter, Smg, LiteLLM)
PROXIES = {proxy.name: proxy for proxy in _ALL}
