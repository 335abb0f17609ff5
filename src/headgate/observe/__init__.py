"""Reads engines: their metrics pages, lists of models, and published KV events.

Decides when to read each engine, at little cost to engines and to the event loop, and which readings can be
relied on. Input: the pools of each snapshot, a few settings and a way to connect. Output: readings for the
endpoint states, and cached blocks for the prefix index. No request waits for it.
"""

from headgate.observe.process import Connector, Listener, Process
from headgate.observe.settings import Settings

__all__ = ["Connector", "Listener", "Process", "Settings"]
