"""Response bodies and server-sent events, a file for each API's shape of them."""

from headgate.simulator.server.answers.answer import Answer

__all__ = ["Answer"]
