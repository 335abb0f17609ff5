"""Which endpoint's KV cache is believed to hold how much of a prompt.

Is given the block hashes of prompts as they are sent to endpoints, and hands on how many blocks of another
prompt each endpoint holds from the front. Pure: time is an argument.
"""

from headgate.fleet.prefix.exact import ExactIndex
from headgate.fleet.prefix.index import PrefixIndex

__all__ = ["ExactIndex", "PrefixIndex"]
