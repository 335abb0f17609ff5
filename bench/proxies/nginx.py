"""nginx, from the system's packages."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from typing import ClassVar

from ports import held_port
from proxies.processes import Addresses, ProxyProcesses, UnavailableError, route_name


class Nginx(ProxyProcesses):
    """A plain HTTP proxy in C: the cost of forwarding bytes without reading them."""

    name: ClassVar[str] = "nginx"
    note: ClassVar[str] = (
        "one worker, plain proxy (reads no JSON), round robin, keep-alive, access log to a file"
    )
    has_routes: ClassVar[bool] = True
    has_tls: ClassVar[bool] = True

    # The idle streams need nearly all files that the process may open. nginx closes new connections when less
    # than a sixteenth are free, so twice as many connections as files are allowed. Buffering is off, as it
    # would hold back the chunks of a stream. keepalive_requests: by default, a connection is closed after
    # 1,000 requests, and reconnecting is not what is measured.
    _CONFIGURATION = """
daemon off;
worker_processes 1;
pid {scratch}/nginx.pid;
error_log {scratch}/error.log warn;
worker_rlimit_nofile {files};
events {{ worker_connections {connections}; }}
http {{
  access_log {scratch}/access.log combined;
  client_body_temp_path {scratch}/body;
  proxy_temp_path {scratch}/proxy;
  fastcgi_temp_path {scratch}/fastcgi;
  uwsgi_temp_path {scratch}/uwsgi;
  scgi_temp_path {scratch}/scgi;
  keepalive_requests 1000000000;
  upstream engines {{
    {servers}
    keepalive 512;
    keepalive_requests 1000000000;
  }}
  server {{
    listen 127.0.0.1:{port} {tls} backlog=1024;
    {certificate}
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_buffering off;
    location / {{ proxy_pass http://engines; }}
    {locations}
  }}
}}
"""

    def install(self) -> str:
        executable = self._find()
        shown = subprocess.run([executable, "-v"], capture_output=True, text=True, check=True).stderr
        return shown.strip().rpartition("/")[2]

    @staticmethod
    def _find() -> str:
        path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
        if executable := shutil.which("nginx", path=path):
            return executable
        raise UnavailableError("nginx is not installed: apt-get install nginx")

    def start(self, upstreams: Addresses, cache_aware: bool, routes: int = 0) -> tuple[int, int]:
        self.fresh_scratch()
        scratch, port = self.scratch, held_port()
        servers = "\n    ".join(f"server {host}:{number};" for host, number in upstreams)
        # The name of the route is removed from the path.
        locations = "\n    ".join(
            f"location /{route_name(route)}/ {{ proxy_pass http://engines/; }}" for route in range(routes)
        )
        certificate = ""
        if self.is_secure:
            cert, key = self.certificate()
            certificate = f"ssl_certificate {cert}; ssl_certificate_key {key};"
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        file = scratch / "nginx.conf"
        file.write_text(
            self._CONFIGURATION.format(
                scratch=scratch,
                servers=servers,
                port=port,
                tls="ssl http2" if self.is_secure else "",
                certificate=certificate,
                files=files,
                connections=2 * files,
                locations=locations,
            )
        )
        pid = self.spawn("nginx", self._find(), "-p", scratch, "-c", file, "-e", scratch / "error.log")
        self.answers(port)
        return port, pid
