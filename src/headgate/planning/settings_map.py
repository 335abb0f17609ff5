"""The ConfigMap with the settings of planning: its period, and the Prometheus server that it may ask."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from headgate.kubeschema import duration
from headgate.planning import config_values as values
from headgate.planning.config_values import ConfigProblem, Key

__all__ = ["PERIOD_S", "PrometheusSettings", "Settings", "read_settings"]

PERIOD_S: Final = 60.0
_SHORTEST_S: Final = 1.0
_LONGEST_S: Final = 24 * 3600.0


class PrometheusSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the server is, and how to prove who asks. Paths are of files in the controller's container."""

    url: str
    skips_verification: bool = False
    ca_path: str = ""
    client_cert_path: str = ""
    """Set together with `client_key_path`."""
    client_key_path: str = ""
    server_name: str = ""
    """The name in the server's certificate, if it is not that of the URL."""
    bearer_token: str = ""
    token_path: str = ""
    """Of a file with the token; empty if there is a `bearer_token`."""

    def __repr__(self) -> str:
        """Without the token."""
        return f"PrometheusSettings(url={self.url!r})"


class Settings(NamedTuple):
    period_s: float
    prometheus: PrometheusSettings | None
    may_scale_to_zero: bool
    """For models without a setting of their own."""
    is_limited: bool
    """Whether there are no more accelerators than Nodes have."""


def read_settings(
    config_map: str,
    data: Mapping[str, str],
    environment: Mapping[str, str],
    problems: list[ConfigProblem],
) -> Settings:
    """All settings; the environment comes first, and keys that are missing or broken have their defaults."""
    reader = _Reader(config_map, data, environment, problems)
    return Settings(
        _period_s(reader),
        _prometheus(reader),
        reader.is_true("WVA_SCALE_TO_ZERO"),
        reader.is_true("WVA_LIMITED_MODE"),
    )


class _Reader:
    def __init__(
        self,
        config_map: str,
        data: Mapping[str, str],
        environment: Mapping[str, str],
        problems: list[ConfigProblem],
    ) -> None:
        self._config_map = config_map
        self._data = data
        self.environment = environment
        self._problems = problems

    def text(self, name: str) -> str:
        return self.environment.get(name) or self._data.get(name, "")

    def is_true(self, name: str) -> bool:
        text = self.text(name)
        if text and not values.is_boolean(text):
            told = "is neither true nor false; false is used"
            self.key(name).report(told, 'write "true" or "false"', value=text, is_warning=True)
        return values.is_true(text)

    def key(self, name: str) -> Key:
        return Key(self._config_map, name, self._problems)


def _period_s(reader: _Reader) -> float:
    text = reader.text("GLOBAL_OPT_INTERVAL")
    if not text:
        return PERIOD_S
    seconds = values.duration_s(text)
    if seconds is not None and _SHORTEST_S <= seconds <= _LONGEST_S:
        return seconds
    told = f"is not a duration from 1s to 24h; {PERIOD_S:.0f}s is used"
    meant = duration.meant(text)
    fix = f"write {meant}" if meant not in ("", text) else "write it as in 60s"
    reader.key("GLOBAL_OPT_INTERVAL").report(told, fix, value=text, is_warning=True)
    return PERIOD_S


def _prometheus(reader: _Reader) -> PrometheusSettings | None:
    url = reader.text("PROMETHEUS_BASE_URL")
    if not url:
        return None
    if not _is_https(url):
        key = reader.key("PROMETHEUS_BASE_URL")
        key.report("is not the https URL of a server", "write it as in https://prometheus:9090", value=url)
        return None
    cert, key_path = reader.text("PROMETHEUS_CLIENT_CERT_PATH"), reader.text("PROMETHEUS_CLIENT_KEY_PATH")
    if bool(cert) != bool(key_path):
        lacking = "PROMETHEUS_CLIENT_KEY_PATH" if cert else "PROMETHEUS_CLIENT_CERT_PATH"
        told = "is missing; no client certificate is used"
        reader.key(lacking).report(told, "set both the certificate and its key, or none of them")
        cert = key_path = ""
    token = reader.text("PROMETHEUS_BEARER_TOKEN")
    return PrometheusSettings(
        url=url.rstrip("/"),
        skips_verification=reader.is_true("PROMETHEUS_TLS_INSECURE_SKIP_VERIFY"),
        ca_path=reader.text("PROMETHEUS_CA_CERT_PATH"),
        client_cert_path=cert,
        client_key_path=key_path,
        server_name=reader.text("PROMETHEUS_SERVER_NAME"),
        bearer_token=token,
        token_path="" if token else _token_path(reader),
    )


def _token_path(reader: _Reader) -> str:
    """Only from the environment, as in the reference: whoever may write the ConfigMap could otherwise have
    any token of the controller sent to any server."""
    name = "PROMETHEUS_TOKEN_PATH"
    found = reader.environment.get(name, "")
    if not found and reader.text(name):
        told = "is ignored in a ConfigMap"
        reader.key(name).report(told, "set it in the environment of the controller", is_warning=True)
    return found


def _is_https(url: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(url)
        return parts.scheme == "https" and bool(parts.hostname) and (parts.port or 443) > 0
    except ValueError:
        return False
