"""Attacks by clients, engines, authors of objects and holders of tokens, and the install under attack.

Each attack is a coroutine that runs for a limited time against one install and counts the responses it
received. It runs in its own process at a low priority: a real attacker takes no CPU time from the machine
that it attacks.
"""

from attack.registry import ATTACKS, Attack, Target
from attack.rig import Rig, Subject
from attack.victims import Latencies, Victim

__all__ = ["ATTACKS", "Attack", "Latencies", "Rig", "Subject", "Target", "Victim"]
