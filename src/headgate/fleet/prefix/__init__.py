"""Estimates how much of a prompt each endpoint's KV cache holds.

Input: the block hashes of prompts sent to endpoints. Output: how many leading blocks of another prompt each
endpoint holds. Pure: time is an argument.
"""

from headgate.fleet.prefix.exact import ExactIndex
from headgate.fleet.prefix.index import PrefixIndex

__all__ = ["ExactIndex", "PrefixIndex"]
