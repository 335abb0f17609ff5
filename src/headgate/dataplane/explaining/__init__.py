"""Explains how a request would be handled, and why: the gateway's and the picker's `/debug/explain`.

Given the state of a process, or only objects, and a request, it runs the decisions that serve requests, and
returns what they are and what speaks for them. It sends and changes nothing.
"""

from headgate.dataplane.explaining.explainer import DEFAULT_PATH, Forms, explain
from headgate.dataplane.explaining.explanation import Answer, Explanation
from headgate.dataplane.explaining.pages import read_body, respond
from headgate.dataplane.explaining.view import Supposing, View

__all__ = [
    "DEFAULT_PATH",
    "Answer",
    "Explanation",
    "Forms",
    "Supposing",
    "View",
    "explain",
    "read_body",
    "respond",
]
