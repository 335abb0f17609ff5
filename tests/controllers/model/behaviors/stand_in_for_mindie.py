"""Stands in for MindIE's programs: reads their file, reports health, and answers requests where they do.

Its arguments are the command line of the container: bash, -c, a script, the file, the program, its arguments.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

file, program, *words = sys.argv[4:]
config = json.loads(Path(file).read_text())


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/metrics" and self.server.server_port == 1027:
            page = "\n".join(f'num_requests_{each}{{model_name="m"}} 0' for each in ("running", "waiting"))
            self._send_bytes(f"{page}\n".encode(), "text/plain")
            return
        self._send({"data": []}, 200 if "health" in self.path or self.path == "/v1/models" else 404)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        tokens = asked["max_tokens"]
        if asked.get("stream"):
            chunk = {"model": asked["model"], "choices": [], "usage": {"completion_tokens": tokens}}
            self._send_bytes(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode(), "text/event-stream")
            return
        message = {"role": "assistant", "content": program}
        choice = {"index": 0, "message": message, "finish_reason": "length"}
        usage = {"prompt_tokens": 1, "completion_tokens": tokens, "total_tokens": tokens + 1}
        self._send({"model": asked["model"], "choices": [choice], "usage": usage})

    def _send(self, content: object, status: int = 200) -> None:
        self._send_bytes(json.dumps(content).encode(), "application/json", status)

    def _send_bytes(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("x-inference-pod", os.environ["POD_NAME"])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


def ports() -> list[int]:
    if program.endswith("mindieservice_daemon"):
        server = config["ServerConfig"]
        [model] = config["BackendConfig"]["ModelDeployConfig"]["ModelConfig"]
        assert model["modelName"]
        assert Path(model["modelWeightPath"], "config.json").exists()
        assert os.environ["MIES_SERVICE_MONITOR_MODE"] == "1"
        return [server["port"], server["managementPort"], server["metricsPort"]]
    if program.endswith("ms_coordinator"):
        return [int(words[1]), int(words[3])]
    assert config["deploy_mode"] == "pd_separate"
    return [1026]


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
servers = [ThreadingHTTPServer((os.environ["POD_IP"], port), Handler) for port in ports()]
for each in servers[1:]:
    threading.Thread(target=each.serve_forever, daemon=True).start()
servers[0].serve_forever()
