"""Section about who may use the gateway."""

from __future__ import annotations

from typing import Annotated, Literal

from headgate.dataplane.settings.section import Section, setting


class Auth(Section, frozen=True):
    """Authentication of clients, by API keys, tokens or certificates. It is on once one of them is set."""

    mode: Annotated[
        Literal["auto", "off"],
        setting(
            "`auto` requires credentials as soon as any setting below says which; `off` lets everybody in, "
            "without a warning."
        ),
    ] = "auto"
    keys_file: Annotated[
        str | None,
        setting("File of API keys, which `headgate key` writes; only its owner may read it."),
    ] = None
    tenants_file: Annotated[str | None, setting("YAML file of Tenants: what the holders of keys may do.")] = (
        None
    )
    namespace: Annotated[
        str,
        setting(
            "Namespace of the Secrets with API keys, and of the Tenants, in a cluster; empty reads none.",
            live=False,
        ),
    ] = ""
    jwt_keys: Annotated[
        str,
        setting(
            "Public keys of the issuer of tokens (JWT): URL or file of its JSON Web Key Set; empty accepts "
            "no tokens."
        ),
    ] = ""
    jwt_issuer: Annotated[str, setting("The `iss` that tokens must have; empty accepts any.")] = ""
    jwt_audiences: Annotated[
        tuple[str, ...], setting("Tokens must have one of these in `aud`; without any, it is not checked.")
    ] = ()
    jwt_tenant_claim: Annotated[
        str, setting("The claim of a token that names its tenant; users must not be able to choose it.")
    ] = "sub"
    mtls: Annotated[
        bool,
        setting("Whether a verified client certificate is enough; its names are matched with Tenants."),
    ] = False
    forward_credentials: Annotated[
        bool, setting("Whether endpoints get the credentials that the gateway has accepted.")
    ] = False
    admin_token_file: Annotated[
        str | None,
        setting("File with a token that opens the metrics and admin pages, besides keys made with --admin."),
    ] = None

    @property
    def is_on(self) -> bool:
        """Whether clients need credentials, as far as this section says it."""
        return self.mode != "off" and bool(self.keys_file or self.namespace or self.jwt_keys or self.mtls)
