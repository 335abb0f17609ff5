"""Reads the key of an external provider. No message has any part of a key."""

from __future__ import annotations

import base64
import binascii
import errno
import os
import stat
from collections.abc import Mapping
from typing import Final

from headgate import api
from headgate.dataplane.providers.provider_file import KeySource

MAX_BYTES: Final = 4096
_VISIBLE: Final = frozenset(range(0x21, 0x7F))


class UnusableKeyError(ValueError):
    """There is no key that can be used; the message says where it was looked for."""


def read(
    source: KeySource, secrets: Mapping[api.ObjectKey, api.Secret], environment: Mapping[str, str]
) -> bytes:
    """The key. Raises UnusableKeyError."""
    if source.file is not None:
        return _checked(_of_file(source.file), source.file)
    if source.environment is not None:
        text = environment.get(source.environment)
        if not text:
            # Some keys could be names of variables, but none has capitals only.
            shown = source.environment if source.environment.isupper() else "variable of this name"
            raise UnusableKeyError(f"its key is missing: the environment has no {shown}")
        return _checked(text.encode("utf-8", "surrogateescape"), f"${source.environment}")
    assert source.secret is not None
    namespace, name, entry = source.secret.split("/")
    secret = secrets.get(api.ObjectKey(namespace, name))
    if secret is None:
        raise UnusableKeyError(
            f"its key is missing: there is no Secret {namespace}/{name}, or it may not be read"
        )
    if entry not in secret.data:
        raise UnusableKeyError(f"its key is missing: Secret {namespace}/{name} has no entry {entry}")
    try:
        value = base64.b64decode(secret.data[entry], validate=True)
    except (binascii.Error, ValueError):
        raise UnusableKeyError(f"entry {entry} of Secret {namespace}/{name} is not base64") from None
    return _checked(value, f"entry {entry} of Secret {namespace}/{name}")


def _of_file(path: str) -> bytes:
    try:
        # Opening a pipe would otherwise wait for its writer.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            if stat.S_IMODE(found.st_mode) & 0o077:
                mode = stat.S_IMODE(found.st_mode)
                raise UnusableKeyError(
                    f"its key {path} is open to others (mode {mode:04o}): run `chmod 600 {path}`"
                )
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UnusableKeyError(f"its key {path} cannot be read: {error.strerror or error}") from None


def _checked(value: bytes, place: str) -> bytes:
    key = value.strip()
    if not key or len(key) > MAX_BYTES or not _VISIBLE.issuperset(key):
        raise UnusableKeyError(f"{place} has no key: one line of visible ASCII characters is needed")
    return key
