"""Proxies that some attacks are also run against, in the same run: nginx and Envoy.

Both route by path, because they do not parse JSON: requests for hostile engines use a different path.
"""

from __future__ import annotations

from typing import Any

import proxies
from proxies.envoy import Envoy
from proxies.processes import Addresses, wait_until_listening

_HOSTILE_PATH = "/v1/completions"


class PeerNginx(proxies.Nginx):
    """Set up as in front of servers that slow clients must not block: bodies are buffered, large ones on
    disk, with the same size limit as Headgate; everything else has its default.
    """

    _CONFIGURATION = (
        """
daemon off;
worker_processes 1;
pid {scratch}/nginx.pid;
error_log {scratch}/error.log warn;
worker_rlimit_nofile {files};
events {{ worker_connections 4096; }}
http {{
  access_log {scratch}/access.log combined;
  client_body_temp_path {scratch}/body;
  proxy_temp_path {scratch}/proxy;
  fastcgi_temp_path {scratch}/fastcgi;
  uwsgi_temp_path {scratch}/uwsgi;
  scgi_temp_path {scratch}/scgi;
  client_max_body_size 32m;
  upstream engines {{
    {servers}
    keepalive 64;
  }}
  upstream hostile {{
    server {hostile};
    keepalive 64;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    location / {{ proxy_pass http://engines; }}
    location = """
        + _HOSTILE_PATH
        + """ {{ proxy_pass http://hostile; }}
  }}
}}
"""
    )

    def start(self, upstreams: Addresses, cache_aware: bool) -> tuple[int, int]:
        _, hostile, _ = (f"{host}:{port}" for host, port in upstreams)
        self._CONFIGURATION = self._CONFIGURATION.replace("{hostile}", hostile)
        return super().start(upstreams[:1], cache_aware)

    def answers(self, port: int) -> None:
        wait_until_listening("127.0.0.1", port)


class PeerEnvoy(Envoy):
    """One worker thread, with default limits on HTTP/2 frames."""

    def answers(self, port: int) -> None:
        wait_until_listening("127.0.0.1", port)

    def _configuration(self, port: int, upstreams: Addresses) -> dict[str, Any]:
        made = super()._configuration(port, upstreams[:1])
        resources = made["static_resources"]
        manager = resources["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
        manager["route_config"]["virtual_hosts"][0]["routes"].insert(
            0, {"match": {"path": _HOSTILE_PATH}, "route": {"cluster": "hostile", "timeout": "0s"}}
        )
        hostile = super()._configuration(port, upstreams[2:])["static_resources"]["clusters"][0]
        hostile["name"] = hostile["load_assignment"]["cluster_name"] = "hostile"
        hostile["typed_extension_protocol_options"] = {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            }
        }
        resources["clusters"].append(hostile)
        return made


PEERS: dict[str, type[PeerNginx] | type[PeerEnvoy]] = {"nginx": PeerNginx, "envoy": PeerEnvoy}
