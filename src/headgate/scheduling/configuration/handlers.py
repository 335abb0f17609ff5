"""Profile handlers of the endpoint picker and their deciders: which profile picks for which phase."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

import msgspec

from headgate.scheduling.configuration.plan import Disaggregation
from headgate.scheduling.configuration.problems import Problems, meant
from headgate.scheduling.plugins.plugin import NoParameters

SINGLE, DISAGGREGATED, OLDER = "single-profile-handler", "disagg-profile-handler", "pd-profile-handler"
PREFIX_BASED, ALWAYS, MULTIMODAL = (
    "prefix-based-pd-decider",
    "always-disagg-pd-decider",
    "always-disagg-multimodal-decider",
)


class Profiles(msgspec.Struct, frozen=True, kw_only=True):
    decode: str = "decode"
    prefill: str = "prefill"
    encode: str = "encode"


class Deciders(msgspec.Struct, frozen=True, kw_only=True):
    prefill: str | None = None
    encode: str | None = None


class Disaggregated(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    profiles: Profiles = Profiles()
    deciders: Deciders = Deciders()
    stage_order: Literal["decode-first", "prefill-first"] = "decode-first"


class OlderDisaggregated(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Parameters of pd-profile-handler: a named decider, or a threshold of its own."""

    threshold: Annotated[int, msgspec.Meta(ge=0)] = 0
    decode_profile: str = "decode"
    prefill_profile: str = "prefill"
    decider_plugin_name: str | None = None
    prefix_plugin_type: str = ""
    prefix_plugin_name: str = ""
    hash_block_size: int = 0
    primary_port: int = 0


class PrefixBased(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    non_cached_tokens: Annotated[int, msgspec.Meta(ge=0)] = 0
    """0 disables it."""
    prompt_tokens: Annotated[int, msgspec.Meta(ge=0)] = 0
    prefix_match_info_producer_name: str = ""


class HeadersHandler(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    prefill_profile: str = "prefill"
    encode_profile: str = "encode"


PARAMETERS: dict[str, type[msgspec.Struct]] = {
    SINGLE: NoParameters,
    DISAGGREGATED: Disaggregated,
    OLDER: OlderDisaggregated,
    PREFIX_BASED: PrefixBased,
    ALWAYS: NoParameters,
    MULTIMODAL: NoParameters,
    "disagg-headers-handler": HeadersHandler,
    "prefill-header-handler": HeadersHandler,
}
HANDLERS = (SINGLE, DISAGGREGATED, OLDER)


def disaggregation(
    parameters: msgspec.Struct, path: str, made: dict[str, tuple[str, Any]], problems: Problems
) -> Disaggregation:
    """The settings of a handler, given the type and parameters of each plugin by name."""
    if isinstance(parameters, OlderDisaggregated):
        decider, field = parameters.decider_plugin_name, f"{path}.deciderPluginName"
        profiles = Profiles(decode=parameters.decode_profile, prefill=parameters.prefill_profile)
        if decider is None:
            tokens = parameters.threshold
            return Disaggregation(
                decode=profiles.decode, prefill=profiles.prefill, remote_tokens=max(tokens, 0)
            )
    else:
        assert isinstance(parameters, Disaggregated)
        decider, field = parameters.deciders.prefill, f"{path}.deciders.prefill"
        profiles = parameters.profiles
        if parameters.stage_order != "decode-first":
            problems.warning(f"{path}.stageOrder", "the endpoint that decodes is always picked first")
        if parameters.deciders.encode is not None:
            problems.warning(f"{path}.deciders.encode", "no stage of its own encodes media")
    if decider is None:
        return Disaggregation(decode=profiles.decode)
    tokens = _remote_tokens(decider, field, made, problems)
    return Disaggregation(decode=profiles.decode, prefill=profiles.prefill, remote_tokens=tokens)


def _remote_tokens(decider: str, path: str, made: dict[str, tuple[str, Any]], problems: Problems) -> int:
    """The least number of uncached tokens for which a decider chooses disaggregation."""
    if decider not in made:
        problems.error(path, f"no plugin is called {decider}", meant(decider, made))
        return sys.maxsize
    kind, parameters = made[decider]
    if kind == ALWAYS:
        return 0
    if kind != PREFIX_BASED:
        problems.error(path, f"{decider} is a {kind}, and no decider", f"use {PREFIX_BASED} or {ALWAYS}")
        return sys.maxsize
    said: PrefixBased = parameters
    if not said.non_cached_tokens:
        return sys.maxsize
    return max(said.non_cached_tokens, said.prompt_tokens)
