"""Where API keys are stored: in a file, or as Secrets of a cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol, TypeVar

import click

from headgate import api, cluster
from headgate.auth.keys import Key
from headgate.cli.objects import connecting
from headgate.dataplane.credentials import key_file, secrets

T = TypeVar("T")


class Store(Protocol):
    """Methods raise ClickException."""

    def all(self) -> list[Key]: ...
    def add(self, key: Key) -> None: ...
    def replace(self, key: Key) -> None:
        """Store a key instead of the one with the same id."""

    def remove(self, key_id: str) -> None: ...


class File:
    """A file of keys; it is made with the first."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self) -> list[Key]:
        try:
            return key_file.read(self._path)
        except key_file.KeyFileError as error:
            raise click.ClickException(str(error)) from error

    def add(self, key: Key) -> None:
        self._change(lambda present: [*present, key])

    def replace(self, key: Key) -> None:
        self._change(lambda present: [key if each.id == key.id else each for each in present])

    def remove(self, key_id: str) -> None:
        self._change(lambda present: [each for each in present if each.id != key_id])

    def _change(self, edit: Callable[[list[Key]], list[Key]]) -> None:
        try:
            key_file.change(self._path, edit)
        except key_file.KeyFileError as error:
            raise click.ClickException(str(error)) from error


class Cluster:
    """Secrets in one namespace."""

    def __init__(self, server: connecting.Server, namespace: str) -> None:
        self._server = server
        self._namespace = namespace

    def all(self) -> list[Key]:
        found = self._run(
            lambda client: client.list(api.Secret, self._namespace, label_selector=secrets.SELECTOR)
        )
        keys = [secrets.key_of(secret) for secret in found]
        return [key for key in keys if isinstance(key, Key)]

    def add(self, key: Key) -> None:
        self._apply(key)

    def replace(self, key: Key) -> None:
        self._apply(key)

    def _apply(self, key: Key) -> None:
        manifest = secrets.secret_of(key, self._namespace)
        self._run(lambda client: client.apply_manifest(manifest, field_manager="headgate-key", force=True))

    def remove(self, key_id: str) -> None:
        name = secrets.name_of(key_id)
        self._run(lambda client: client.delete(api.Secret, name, self._namespace))

    def _run(self, main: Callable[[cluster.Client], Awaitable[T]]) -> T:
        return connecting.run(self._server, main)
