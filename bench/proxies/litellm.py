"""LiteLLM's proxy, installed from the package index."""

from __future__ import annotations

import json
from typing import ClassVar

import upstream
from ports import held_port
from proxies.packaged import PackagedProxy
from proxies.processes import Addresses


class LiteLLM(PackagedProxy):
    """A Python gateway that decodes and re-encodes everything that it forwards."""

    name: ClassVar[str] = "litellm"
    pinned: ClassVar[str] = "1.106.2"
    module: ClassVar[str] = "litellm"
    extras: ClassVar[str] = "[proxy]"
    note: ClassVar[str] = (
        "one worker, defaults, output to a file; it rewrites responses, so no stream is compared"
    )
    passes_bytes: ClassVar[bool] = False
    ready_within_s: ClassVar[float] = 120.0

    def start(self, upstreams: Addresses, cache_aware: bool, routes: int = 0) -> tuple[int, int]:
        self.fresh_scratch()
        port = held_port()
        models = [
            {
                "model_name": upstream.MODEL,
                "litellm_params": {
                    "model": f"openai/{upstream.MODEL}",
                    "api_base": f"http://{host}:{number}/v1",
                    "api_key": "none",
                },
            }
            for host, number in upstreams
        ]
        file = self.scratch / "litellm.yaml"
        file.write_text(json.dumps({"model_list": models, "general_settings": _GENERAL}))  # JSON is YAML
        pid = self.spawn(
            "litellm",
            *(self._environment / "bin" / "litellm", "--config", file, "--host", "127.0.0.1"),
            *("--port", str(port), "--num_workers", "1"),
        )
        self.answers(port)
        return port, pid


_GENERAL = {"dangerously_permit_weak_or_unset_master_key": True}
"""Otherwise, it does not start without client keys."""
