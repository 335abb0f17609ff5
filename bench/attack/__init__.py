"""Attacks by clients, engines, authors of objects and holders of tokens, and the install under attack.

Each attack is a coroutine that runs for a bounded time against one install and counts the responses it got.
It runs in a process of its own at a low priority: a real attacker takes no CPU time of the machine that
it attacks.
"""

from attack.registry import ATTACKS, Attack, Target
from attack.rig import Rig, Subject
from attack.victims import Latencies, Victim

__all__ = ["ATTACKS", "Attack", "Latencies", "Rig", "Subject", "Target", "Victim"]
