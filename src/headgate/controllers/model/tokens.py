"""The token with which the controller speaks to the sidecars of a Model: random, made once, in a Secret."""

from __future__ import annotations

import base64
import binascii
import secrets

from headgate import api, cluster
from headgate.controllers.model import names
from headgate.controllers.model.applying import TakenError, check_owner
from headgate.controllers.model.observed import Known, KnownSecret

KEY = "token"
_BYTES = 32


async def ensure(client: cluster.Client, model: api.Model, known: Known | None) -> None:
    """Create the Secret if it does not exist. Raises TakenError, PredecessorError, and ApiError."""
    if known is not None:
        check_owner(known, model)
        if not token_of(known):
            raise TakenError(
                f"Secret {known.metadata.name} has no key {KEY}: delete it, and another one will be created"
            )
        return
    name = names.runtime_secret(model)
    encoded = base64.b64encode(secrets.token_urlsafe(_BYTES).encode()).decode()
    owner = api.OwnerReference(
        api_version=model.resource.api_version,
        kind=model.resource.kind,
        name=model.metadata.name,
        uid=model.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
    metadata = api.ObjectMeta(
        name=name,
        namespace=model.metadata.namespace,
        labels=names.labels(model),
        owner_references=[owner],
    )
    try:
        await client.create(api.Secret(metadata=metadata, data={KEY: encoded}))
    except cluster.AlreadyExists as error:
        raise await _unfollowed(client, model, name) from error


async def _unfollowed(client: cluster.Client, model: api.Model, name: str) -> TakenError:
    """Why a Secret of this name is there that the controller does not follow. It may not change Secrets, and
    so a person has to. Raises PredecessorError, and ApiError."""
    namespace = model.metadata.namespace
    found = await client.list(KnownSecret, namespace, field_selector=f"metadata.name={name}")
    secret = next(iter(found), None)
    try:
        check_owner(secret, model)
    except TakenError as error:
        return error
    label = f"{names.MANAGED_BY}={names.labels(model)[names.MANAGED_BY]}"
    return TakenError(
        f"Secret {name} of this Model has lost its label {label}: put it back with "
        f"`kubectl label --overwrite -n {namespace} secret {name} {label}`, or delete the Secret, and "
        "another one will be created"
    )


def token_of(known: Known | None) -> str:
    """The token; empty if there is none."""
    if not isinstance(known, KnownSecret):
        return ""
    try:
        return base64.b64decode(known.data.get(KEY, ""), validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        return ""
