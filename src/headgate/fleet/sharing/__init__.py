"""What gateways and pickers report to each other of the endpoints that they share.

Each member reports its own work on each endpoint as absolute numbers, and the prompts that it sent. From the
reports of the others, it adds their work to its ledger and their prompts to its prefix index. Loss,
repetition and reordering of reports heal by themselves, and a member that falls silent is forgotten. Pure.
"""

from headgate.fleet.sharing.journal import Journal
from headgate.fleet.sharing.members import MAX_MEMBERS, SILENT_S, Members
from headgate.fleet.sharing.reporter import Reporter
from headgate.fleet.sharing.reports import Load, Prompt, Report, decode, encode

__all__ = [
    "MAX_MEMBERS",
    "SILENT_S",
    "Journal",
    "Load",
    "Members",
    "Prompt",
    "Report",
    "Reporter",
    "decode",
    "encode",
]
