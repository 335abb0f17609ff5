"""Prefill on one engine and decode on another: who computed which prompt, and how its KV cache changes hands.

Given requests that carry vLLM's `kv_transfer_params` (connectors nixl and mooncake) or SGLang's bootstrap
fields, it decides which side of a pair a request is, asks the other simulated engine over HTTP for what it
computed, and hands on how many tokens need no prefill here. What a request does against the protocol is
counted, and refused on demand.
"""

from headgate.simulator.server.kv_transfer.transfer import Transfer
from headgate.simulator.server.kv_transfer.transfers import Transfers

__all__ = ["Transfer", "Transfers"]
