"""Disaggregated prefill and decode: which engine computed which prompt, and how its KV cache is transferred.

For requests with vLLM's `kv_transfer_params` (connectors nixl and mooncake) or SGLang's bootstrap fields, it
decides which side of a pair a request is, asks the other simulated engine over HTTP what it has computed, and
returns how many tokens need no prefill here. Deviations from the protocol are counted, and rejected if
enabled.
"""

from headgate.simulator.server.kv_transfer.transfer import Transfer
from headgate.simulator.server.kv_transfer.transfers import Transfers

__all__ = ["Transfer", "Transfers"]
