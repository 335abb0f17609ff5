"""Picks the endpoint of a pool that serves a request.

Input: a request's model, size and prefix, and the states of the pool's endpoints. Output: a Choice, the
endpoint with its expected first token. `candidates` finds the eligible endpoints, and a Policy chooses among
those. Pure: time and randomness are arguments.
"""

from headgate.scheduling.candidates import candidates
from headgate.scheduling.homes import Homes
from headgate.scheduling.least_decoding import LeastDecoding
from headgate.scheduling.least_work import LeastWork
from headgate.scheduling.pairs import CACHED, NO_PREFILL, SHORT, Pair, Pairs, Terms, pick_again, pick_pair
from headgate.scheduling.pick import pick
from headgate.scheduling.policy import Policy, Refused
from headgate.scheduling.predicted import PredictedFirstToken
from headgate.scheduling.request import Choice, Request
from headgate.scheduling.weighted import Weighted
from headgate.scheduling.with_adapters import WithAdapters

__all__ = [
    "CACHED",
    "NO_PREFILL",
    "SHORT",
    "Choice",
    "Homes",
    "LeastDecoding",
    "LeastWork",
    "Pair",
    "Pairs",
    "Policy",
    "PredictedFirstToken",
    "Refused",
    "Request",
    "Terms",
    "Weighted",
    "WithAdapters",
    "candidates",
    "pick",
    "pick_again",
    "pick_pair",
]
