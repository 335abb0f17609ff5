"""Listens to engines that publish what their KV caches hold, and has prompts tokenised, in the background.

Is given the pools of a snapshot and the prompts that were sent, and fills the exact part of the prefix index.
Nothing waits for it: as long as an engine is not heard of, what is believed of it is all there is, and the
pages say so.
"""

from headgate.observe.kv_events.sources import KvEventSources

__all__ = ["KvEventSources"]
