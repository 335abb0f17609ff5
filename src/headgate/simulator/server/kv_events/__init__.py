"""What the prefix cache holds, told to the world over ZMQ as vLLM tells it.

Given the events of the model, it fills in the token ids, packs them with msgpack in vLLM's array or map form,
and publishes numbered batches; who missed some asks for them again. `publisher` is imported where it is
needed, since ZMQ takes a while.
"""

from headgate.simulator.server.kv_events.config import KvEventsConfig

__all__ = ["KvEventsConfig"]
