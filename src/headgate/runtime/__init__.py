"""The sidecar of an engine: metrics with unified names, draining, downloads and LoRA adapters.

It runs beside each engine, in the same Pod, so it is small: it imports little, and keeps little. Input: the
engine's own HTTP API, the desired adapters that a controller sends, and files in a directory that it shares
with downloads. It reaches no other address than the engine's.
"""

from headgate.runtime.service import RuntimeConfig, run_runtime

__all__ = ["RuntimeConfig", "run_runtime"]
