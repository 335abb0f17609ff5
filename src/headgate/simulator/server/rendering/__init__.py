"""Prompts become tokens elsewhere: at a render service, which has a model's own tokenizer and chat template.

It is vLLM's (`vllm launch render`), or whatever else answers its paths. Only prompts are asked for: made-up
words still are one token each.
"""

from headgate.simulator.server.rendering.prompts import Prompts
from headgate.simulator.server.rendering.service import RenderService

__all__ = ["Prompts", "RenderService"]
