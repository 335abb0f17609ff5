"""A request's body for the connectors: its top-level members, undecoded, and its API."""

from __future__ import annotations

import re

import msgspec

Raw = msgspec.Raw

ONE = Raw(b"1")
FALSE = Raw(b"false")
_NULL = b"null"
_TOKENS = re.compile(rb"\[\s*[^\s\"\[\]]")
"""The start of a list that is one prompt, as tokens."""


class Api(msgspec.Struct, frozen=True, kw_only=True):
    """One of the APIs whose requests have a prompt and a response."""

    limit: str = ""
    """The member that limits the response's tokens; empty if it is nested elsewhere."""
    other_limits: tuple[str, ...] = ()
    """Other names of the same limit, used only if the client gave them."""
    stores: bool = False
    """Whether the engine stores the response by default."""


APIS = {
    "/v1/chat/completions": Api(limit="max_tokens", other_limits=("max_completion_tokens",)),
    "/v1/completions": Api(limit="max_tokens"),
    "/v1/messages": Api(limit="max_tokens"),
    "/v1/responses": Api(limit="max_output_tokens", stores=True),
    "/generate": Api(),
}
"""By path. OpenAI's own service requires at least 16 `max_output_tokens`; engines accept 1."""

GIVEN_BY_US = frozenset({"kv_transfer_params", "bootstrap_host", "bootstrap_port", "bootstrap_room"})
"""Members that tell an engine whose memory to read: clients must not set them."""

_THROWN_AWAY = frozenset(
    {
        *("stream", "stream_options"),
        *("min_tokens", "ignore_eos", "stop", "stop_token_ids", "stop_sequences"),
        *("logprobs", "top_logprobs", "prompt_logprobs", "echo", "use_beam_search", "best_of"),
        *("response_format", "text", "structured_outputs", "guided_json", "guided_regex", "guided_choice"),
        *("guided_grammar", "guided_decoding_backend", "guided_whitespace_pattern"),
    }
)
"""Members about a response that is discarded: the prompt depends on none of them."""


PROMPTS = ("prompt", "text", "input_ids")
"""Members that may be a list of prompts."""
MAX_PROMPTS = 1024
"""Further prompts of one large request are not counted."""
READ_MEMBERS = (
    _THROWN_AWAY
    | GIVEN_BY_US
    | {*PROMPTS, "n", "store", "background", "previous_response_id"}
    | {name for api in APIS.values() for name in (api.limit, *api.other_limits) if name}
)
"""All members that the connectors read or change."""
_LONGEST_NUMBER_BYTES = 20

Buffers = tuple[bytes | bytearray | memoryview, ...]


class Body:
    """A JSON object as its members, in order; immutable."""

    __slots__ = ("_others", "_prompts", "api", "fields", "raw")

    def __init__(
        self,
        raw: bytes | Buffers,
        fields: dict[str, Raw],
        api: Api,
        others: Buffers | None = None,
        prompts: int | None = None,
    ) -> None:
        self.raw = raw
        """As received."""
        self.fields = fields
        self.api = api
        self._others = others
        """For a large body: the members that are not in `fields`, several per piece. Every non-empty piece
        ends with a comma, except the last one."""
        self._prompts = prompts

    def count(self, name: str) -> int:
        """A member that is a positive integer; 1 if it is not."""
        value = self.fields.get(name, ONE)
        if memoryview(value).nbytes > _LONGEST_NUMBER_BYTES:
            return 1
        try:
            return max(msgspec.json.decode(value, type=int), 1)
        except msgspec.DecodeError:
            return 1

    def has(self, name: str) -> bool:
        """Whether a member is set: present, and neither null nor false."""
        value = memoryview(self.fields.get(name, _NULL))
        return value.nbytes > len(b"false") or bytes(value) not in (_NULL, b"false")

    def prompts(self) -> int:
        """The number of prompts: the completions API accepts a list."""
        if self._prompts is not None:
            return self._prompts
        for name in PROMPTS:
            value = self.fields.get(name)
            if value is not None and first_byte(value) == b"[":
                if _TOKENS.match(value):
                    return 1  # there may be a million of them
                items = msgspec.json.decode(value, type=list[Raw])
                return max(len(items), 1)
        return 1

    def whole(self) -> bytes | Buffers:
        """The body for an endpoint that serves the request alone."""
        if GIVEN_BY_US.isdisjoint(self.fields):
            return self.raw
        return self._encoded({key: value for key, value in self.fields.items() if key not in GIVEN_BY_US})

    def with_members(self, **members: object) -> bytes | Buffers:
        """The whole body, with these members at the end."""
        kept = {key: value for key, value in self.fields.items() if key not in GIVEN_BY_US}
        return self._encoded({**kept, **{key: raw(value) for key, value in members.items()}})

    def without(self, names: tuple[str, ...]) -> Body:
        """The same body without some members."""
        kept = {key: value for key, value in self.fields.items() if key not in names}
        return Body(self.raw, kept, self.api, self._others, self._prompts)

    def prefill(self, **members: object) -> bytes | Buffers:
        """The cheapest request with the same prompt: one token, which is discarded, without streaming."""
        dropped = _THROWN_AWAY | GIVEN_BY_US
        fields = {key: value for key, value in self.fields.items() if key not in dropped}
        if "n" in fields:
            fields["n"] = ONE
        if self.api.stores:
            fields["store"] = FALSE
        fields |= self.limits()
        return self._encoded({**fields, **{key: raw(value) for key, value in members.items()}})

    def _encoded(self, fields: dict[str, Raw]) -> bytes | Buffers:
        """The object with these members. A large one is not copied, and its parsed members come last."""
        if self._others is None:
            return encode(fields)
        *others, last = self._others
        members = [(b"," if place else b"", key, value) for place, (key, value) in enumerate(fields.items())]
        buffers: list[bytes | bytearray | memoryview] = [b"{", *others]
        for comma, key, value in members:
            buffers += (b"%b%b:" % (comma, encode(key)), memoryview(value))
        return (*buffers, b"," if len(last) else b"", last, b"}")

    def limits(self) -> dict[str, Raw]:
        """The members that limit the response to one token."""
        if not self.api.limit:
            return {}
        given = (name for name in self.api.other_limits if bytes(self.fields.get(name, _NULL)) != _NULL)
        return dict.fromkeys((self.api.limit, *given), ONE)


def read(path: str, body: bytes) -> Body | None:
    """The body of a request to this path; None for an API without prompts, and for a body that is not an
    object."""
    api = APIS.get(path)
    if api is None:
        return None
    try:
        return Body(body, _decode(body), api)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def large(path: str, raw: Buffers, fields: dict[str, Raw], others: Buffers, prompts: int) -> Body | None:
    """Like `read`, for a body that is too large to decode, given the members that matter."""
    api = APIS.get(path)
    return Body(raw, fields, api, others, prompts) if api is not None else None


def first_byte(value: Raw) -> bytes:
    """Distinguishes an object from a list, a text or null."""
    return bytes(memoryview(value)[:1])


_decode = msgspec.json.Decoder(dict[str, Raw]).decode
encode = msgspec.json.Encoder().encode


def raw(value: object) -> Raw:
    """A value as JSON."""
    return value if isinstance(value, Raw) else Raw(encode(value))
