"""Which endpoint of a pool serves a request.

Is given a request's model, size and prefix with the loads of the pool's endpoints, and hands on a Choice: one
of them, and what is expected of it. `candidates` says who may be asked at all, a Policy chooses among those.
Pure: time and randomness are arguments.
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
    "WithAdapters",
    "candidates",
    "pick",
    "pick_again",
    "pick_pair",
]
