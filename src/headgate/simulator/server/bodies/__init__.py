"""Request bodies: what is read from them, what is refused, and which tokens they are.

Fields that do not change the simulated answer (temperature, top_p, penalties, ...) are accepted and not read.
"""

from headgate.simulator.server.bodies.completions import read_chat, read_completion
from headgate.simulator.server.errors import decode

__all__ = ["decode", "read_chat", "read_completion"]
