"""A request's body as the connectors see it: its top-level members, undecoded, and the API that it is of."""

from __future__ import annotations

import re

import msgspec

Raw = msgspec.Raw

ONE = Raw(b"1")
FALSE = Raw(b"false")
_NULL = b"null"
_TOKENS = re.compile(rb"\[\s*[^\s\"\[\]]")
"""The begin of a list that is one prompt, by its tokens."""


class Api(msgspec.Struct, frozen=True, kw_only=True):
    """One of the APIs whose requests have a prompt and an answer."""

    limit: str = ""
    """The member that bounds the answer's tokens; empty where it is nested elsewhere."""
    other_limits: tuple[str, ...] = ()
    """Further names of the same bound, which count only where they are given."""
    stores: bool = False
    """Whether the engine keeps the answer unless it is told not to."""


APIS = {
    "/v1/chat/completions": Api(limit="max_tokens", other_limits=("max_completion_tokens",)),
    "/v1/completions": Api(limit="max_tokens"),
    "/v1/messages": Api(limit="max_tokens"),
    "/v1/responses": Api(limit="max_output_tokens", stores=True),
    "/generate": Api(),
}
"""By path. OpenAI's own service wants at least 16 `max_output_tokens`; engines take 1."""

GIVEN_BY_US = frozenset({"kv_transfer_params", "bootstrap_host", "bootstrap_port", "bootstrap_room"})
"""Members by which a request tells an engine whose memory to read: a client has no say in that."""

_THROWN_AWAY = frozenset(
    {
        *("stream", "stream_options"),
        *("min_tokens", "ignore_eos", "stop", "stop_token_ids", "stop_sequences"),
        *("logprobs", "top_logprobs", "prompt_logprobs", "echo", "use_beam_search", "best_of"),
        *("response_format", "text", "structured_outputs", "guided_json", "guided_regex", "guided_choice"),
        *("guided_grammar", "guided_decoding_backend", "guided_whitespace_pattern"),
    }
)
"""What is said of an answer that nobody reads: of none of these does the prompt depend."""


class Body:
    """A JSON object by its members, in their order; never changed once it is made."""

    __slots__ = ("api", "fields", "raw")

    def __init__(self, raw: bytes, fields: dict[str, Raw], api: Api) -> None:
        self.raw = raw
        """As it came."""
        self.fields = fields
        self.api = api

    def count(self, name: str) -> int:
        """A member that is a positive number; 1 where it is none."""
        try:
            return max(msgspec.json.decode(self.fields.get(name, ONE), type=int), 1)
        except msgspec.DecodeError:
            return 1

    def has(self, name: str) -> bool:
        """Whether a member asks for something: is there, and neither null nor false."""
        return bytes(self.fields.get(name, _NULL)) not in (_NULL, b"false")

    def prompts(self) -> int:
        """How many prompts the request has: those of the completions API may be a list of them."""
        for name in ("prompt", "text", "input_ids"):
            value = self.fields.get(name)
            if value is not None and first_byte(value) == b"[":
                if _TOKENS.match(value):
                    return 1  # there may be a million of them
                items = msgspec.json.decode(value, type=list[Raw])
                return max(len(items), 1)
        return 1

    def whole(self) -> bytes:
        """What an endpoint gets that serves the request alone."""
        if GIVEN_BY_US.isdisjoint(self.fields):
            return self.raw
        return encode({key: value for key, value in self.fields.items() if key not in GIVEN_BY_US})

    def with_members(self, **members: object) -> bytes:
        """All of it, with these members at the end."""
        kept = {key: value for key, value in self.fields.items() if key not in GIVEN_BY_US}
        return encode({**kept, **{key: raw(value) for key, value in members.items()}})

    def prefill(self, **members: object) -> bytes:
        """The shortest request with the same prompt: one token, which is thrown away, told at once."""
        dropped = _THROWN_AWAY | GIVEN_BY_US
        fields = {key: value for key, value in self.fields.items() if key not in dropped}
        if "n" in fields:
            fields["n"] = ONE
        if self.api.stores:
            fields["store"] = FALSE
        fields |= self.limits()
        return encode({**fields, **{key: raw(value) for key, value in members.items()}})

    def limits(self) -> dict[str, Raw]:
        """The members that bound the answer to one token."""
        if not self.api.limit:
            return {}
        given = (name for name in self.api.other_limits if bytes(self.fields.get(name, _NULL)) != _NULL)
        return dict.fromkeys((self.api.limit, *given), ONE)


def read(path: str, body: bytes) -> Body | None:
    """The body of a request to this path; None for an API without prompts, and for what is no object."""
    api = APIS.get(path)
    if api is None:
        return None
    try:
        return Body(body, _decode(body), api)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def first_byte(value: Raw) -> bytes:
    """By which one tells an object from a list, a text or null."""
    return bytes(memoryview(value)[:1])


_decode = msgspec.json.Decoder(dict[str, Raw]).decode
encode = msgspec.json.Encoder().encode


def raw(value: object) -> Raw:
    """A value as it stands in JSON."""
    return value if isinstance(value, Raw) else Raw(encode(value))
