"""Asking engines: metrics pages, lists of models, and the KV events that they publish.

Decides which engine is asked when, at little cost to engines and to the event loop, and which of its
answers can be relied on. It is given the pools of each snapshot, a few settings and a way to connect; it
hands readings to the states of endpoints, and cached blocks to the prefix index. No request waits for it.
"""

from headgate.observe.process import Connector, Listener, Process
from headgate.observe.settings import Settings

__all__ = ["Connector", "Listener", "Process", "Settings"]
