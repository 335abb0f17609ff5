"""API keys in Secrets: `headgate key --namespace` writes them, and so may others."""

from __future__ import annotations

import base64
import binascii

from headgate.api import Secret
from headgate.api.marks import API_KEY
from headgate.auth import keys
from headgate.auth.keys import Key

LABEL = API_KEY
SELECTOR = f"{LABEL}=true"
SHORTEST = 16
"""Characters of a key that was not made by `headgate key`: shorter ones can be guessed."""


def secret_of(key: Key, namespace: str) -> dict[str, object]:
    """The Secret that stores a key."""
    data = {"id": key.id, "tenant": key.tenant, "sha256": key.sha256, "created": key.created}
    if key.expires:
        data["expires"] = key.expires
    if key.admin:
        data["admin"] = "true"
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name_of(key.id), "namespace": namespace, "labels": {LABEL: "true"}},
        "type": "Opaque",
        "stringData": data,
    }


def name_of(key_id: str) -> str:
    return f"headgate-key-{key_id}"


def is_key(secret: Secret) -> bool:
    """Whether it says that it has a key."""
    return secret.metadata.labels.get(LABEL) == "true"


def key_of(secret: Secret) -> Key | str:
    """The key in a Secret, or why there is none. It has `tenant`, and either `sha256` or the `key` itself;
    `expires` and `admin` are optional."""
    try:
        data = {name: base64.b64decode(value, validate=True) for name, value in secret.data.items()}
        texts = {name: value.decode().strip() for name, value in data.items() if name != "key"}
    except (binascii.Error, UnicodeDecodeError) as error:
        return f"data: {error}"
    hashed = texts.get("sha256", "")
    if (whole := data.get("key", b"").strip()) and not hashed:
        if len(whole) < SHORTEST:
            return f"data.key: it has fewer than {SHORTEST} characters, and could be guessed"
        hashed = keys.digest(whole).hex()
    key = Key(
        id=texts.get("id") or secret.metadata.name,
        tenant=texts.get("tenant", ""),
        sha256=hashed,
        created=texts.get("created", ""),
        expires=texts.get("expires", ""),
        admin=texts.get("admin", "") == "true",
    )
    wrong = keys.problems(key)
    return f"data.{wrong[0][0]}: {wrong[0][1]}" if wrong else key
