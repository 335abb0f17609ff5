"""Response bodies and server-sent events, one file for each API."""

from headgate.simulator.server.answers.answer import Answer

__all__ = ["Answer"]
