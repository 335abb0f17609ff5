"""The proxies that are compared, behind one seam: install, start in front of some engines, stop.

Each keeps its defaults where it can; what is set, and why, is said beside the setting. Whatever a proxy logs
goes to a file of its own, so that none of them is spared the writing.
"""

from proxies.envoy import Envoy
from proxies.headgate import Headgate
from proxies.litellm import LiteLLM
from proxies.nginx import Nginx
from proxies.processes import CACHE, ROOT, Proxy, UnavailableError, free_port, wait_until_listening
from proxies.routers import SglangRouter, Smg, VllmRouter

__all__ = [
    "CACHE",
    "PROXIES",
    "ROOT",
    "Headgate",
    "Nginx",
    "Proxy",
    "UnavailableError",
    "free_port",
    "wait_until_listening",
]

_ALL: tuple[type[Proxy], ...] = (Headgate, Nginx, Envoy, VllmRouter, SglangRouter, Smg, LiteLLM)
PROXIES = {proxy.name: proxy for proxy in _ALL}
