"""Request bodies: parsing, validation, and tokenization.

Fields that do not change the simulated output (temperature, top_p, penalties, ...) are accepted and ignored.
"""

from headgate.simulator.server.bodies.completions import read_chat, read_completion
from headgate.simulator.server.errors import decode

__all__ = ["decode", "read_chat", "read_completion"]
