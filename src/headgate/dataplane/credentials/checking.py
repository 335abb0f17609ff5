"""Finds errors in the settings of authentication, and in their files, before anything starts."""

from __future__ import annotations

from pathlib import Path

from headgate import private_files
from headgate.dataplane.credentials import key_file, key_set, tenant_file
from headgate.dataplane.credentials.credentials import MAX_TOKEN_BYTES
from headgate.dataplane.settings.auth import Auth

SHORTEST_TOKEN = 16
"""Characters of the admin's token."""


def problems(auth: Auth) -> list[tuple[str, str]]:
    """Path of the setting, and what is wrong."""
    if auth.mode == "off":
        return []
    found = []
    if auth.keys_file is not None:
        try:
            key_file.read(Path(auth.keys_file))
        except key_file.KeyFileError as error:
            found.append(("auth.keys_file", str(error)))
    if auth.tenants_file is not None:
        try:
            tenant_file.read(Path(auth.tenants_file))
        except tenant_file.TenantFileError as error:
            found.append(("auth.tenants_file", str(error)))
    if auth.jwt_keys and not (key_set.is_url(auth.jwt_keys) or Path(auth.jwt_keys).is_file()):
        why = f"{auth.jwt_keys} is neither an http(s) URL nor a file"
        found.append(("auth.jwt_keys", why))
    for name in ("jwt_issuer", "jwt_audiences"):
        if getattr(auth, name) and not auth.jwt_keys:
            found.append((f"auth.{name}", "it has no effect without auth.jwt_keys: set that, or remove this"))
    if not auth.jwt_tenant_claim:
        found.append(("auth.jwt_tenant_claim", "the name of a claim is needed, such as sub"))
    if auth.admin_token_file is not None:
        try:
            token = private_files.read(Path(auth.admin_token_file), MAX_TOKEN_BYTES).strip()
        except OSError as error:
            token, why = b"", f"{auth.admin_token_file}: {error.strerror or error}"
            found.append(("auth.admin_token_file", why))
        else:
            if len(token) < SHORTEST_TOKEN:
                why = f"it has fewer than {SHORTEST_TOKEN} characters, and could be guessed"
                found.append(("auth.admin_token_file", f"{auth.admin_token_file}: {why}"))
    return found
