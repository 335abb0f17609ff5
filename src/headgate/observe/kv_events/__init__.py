"""Subscribes to the KV events of engines, and has prompts tokenized, in the background.

Input: the pools of a snapshot and the prompts that were sent. Output: the exact part of the prefix index.
Nothing waits for it: until an engine reports, the index relies on what was sent to it, and the admin pages
show that state.
"""

from headgate.observe.kv_events.sources import KvEventSources

__all__ = ["KvEventSources"]
