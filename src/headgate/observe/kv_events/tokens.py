"""Tokenizes some of the sent prompts with the engine's own `POST /tokenize`, in the background.

Engines report their blocks by tokens, and tokenizing a prompt costs a hundred times more than routing it. So
a prompt is tokenized after it was sent, by the engine that has it, and the result serves later prompts with
the same beginning. Prompts beyond `PER_S` are not tokenized.
"""

from __future__ import annotations

import logging
import ssl
from array import array
from collections import Counter
from collections.abc import Callable

import msgspec

from headgate import fleet, routing, scheduling
from headgate.engine_client import Client, FetchError
from headgate.fleet.prefix import ExactIndex, hashing
from headgate.observe.process import Process
from headgate.requests.bodies import prompt
from headgate.requests.bodies.fields import inspect
from headgate.requests.bodies.members import Fields, Prompt
from headgate.requests.bodies.pieces import Pieces

log = logging.getLogger(__name__)

PER_S = 10.0
BURST = 20.0
MAX_AT_ONCE = 4
MAX_BODY_BYTES = 512 * 1024
MAX_MORE_TOKENS = 16 * 1024
"""Tokens beyond the prompt's bytes: those of the chat template."""
BYTES_OF_TOKEN = 8
"""In a response, with the comma."""
TIMEOUT_S = 5.0
PAUSE_S = 30.0
"""An engine that failed to tokenize is not used for so long."""
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
Body = bytes | Pieces
"""As it was sent."""
LARGEST_TOKEN = 2**32 - 1
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors for a response that is not JSON, or is nested too deeply."""


class _PromptMembers(msgspec.Struct, omit_defaults=True):
    """The members of a request that determine its prompt and are also parameters of `/tokenize`."""

    model: msgspec.Raw = msgspec.Raw(b"")
    messages: msgspec.Raw = msgspec.Raw(b"")
    prompt: msgspec.Raw = msgspec.Raw(b"")
    tools: msgspec.Raw = msgspec.Raw(b"")
    chat_template_kwargs: msgspec.Raw = msgspec.Raw(b"")
    add_generation_prompt: msgspec.Raw = msgspec.Raw(b"")
    continue_final_message: msgspec.Raw = msgspec.Raw(b"")


class _Tokenized(msgspec.Struct):
    tokens: list[int]


_decode_members = msgspec.json.Decoder(_PromptMembers).decode
_decode_tokenized = msgspec.json.Decoder(_Tokenized).decode
_decode_ids = msgspec.json.Decoder(list[int]).decode


class PromptTokens:
    """Has prompts tokenized, and learns from the results."""

    def __init__(
        self, process: Process, exact: ExactIndex, is_known: Callable[[fleet.EndpointState], bool]
    ) -> None:
        """`is_known` says whether the process still subscribes to an endpoint."""
        self._process = process
        self._is_known = is_known
        self._exact = exact
        self._saved = BURST
        self._saved_at = 0.0
        self._running = 0
        self._paused_until: dict[fleet.EndpointState, float] = {}
        self.counts = Counter({"learned": 0, "skipped": 0, "failed": 0})

    def want(
        self,
        request: scheduling.Request,
        body: Body,
        load: fleet.EndpointState,
        tls: routing.Tls | None,
    ) -> None:
        """Tokenize a prompt if the rate allows it."""
        now = self._process.clock()
        if len(body) > MAX_BODY_BYTES or self._paused_until.get(load, 0.0) > now:
            self.counts["skipped"] += 1
            return
        # Reading the prompt is costly, so it is done only if its turn has come.
        asked = _tokenize_request(body) if self._running < MAX_AT_ONCE and self._has_saved(now) else None
        if asked is None:
            self.counts["skipped"] += 1
            return
        self._saved -= 1.0
        self._running += 1
        self._process.spawn(self._learn(request, load, tls, *asked))

    def _has_saved(self, now: float) -> bool:
        """Whether the rate allows one more."""
        self._saved = min(self._saved + (now - self._saved_at) * PER_S, BURST)
        self._saved_at = now
        return self._saved >= 1.0

    async def _learn(
        self,
        request: scheduling.Request,
        load: fleet.EndpointState,
        tls: routing.Tls | None,
        body: bytes,
        ids: array[int] | None,
        size: int,
    ) -> None:
        shares = [end * hashing.BLOCK_BYTES / size for end in request.block_ends[: len(request.prefix)]]
        try:
            tokens = ids if ids is not None else await self._tokens(body, load, tls)
        except (FetchError, OverflowError, ssl.SSLError, *UNREADABLE) as error:
            self.counts["failed"] += 1
            if self._is_known(load):  # the endpoint may be gone meanwhile
                self._paused_until[load] = self._process.clock() + PAUSE_S
            log.info("%s does not tokenise: %s", load.endpoint.name, error)
            return
        finally:
            self._running -= 1
        self.counts["learned"] += 1
        self._exact.learn(request.prefix, shares, tokens, request.adapter, load, self._process.clock())

    async def _tokens(self, body: bytes, load: fleet.EndpointState, tls: routing.Tls | None) -> array[int]:
        endpoint = load.endpoint
        context = self._process.connector.tls_context(tls) if tls is not None else None
        client = Client(endpoint.host, endpoint.port, context, tls.server_name if tls is not None else "")
        try:
            most = len(body) + MAX_MORE_TOKENS
            response = await client.post("/tokenize", body, most * BYTES_OF_TOKEN, TIMEOUT_S)
        finally:
            client.close()
        if response.status != 200:
            raise FetchError(f"answers {response.status} to POST /tokenize")
        if response.body.count(b",") > most:  # decoding four million would block the event loop for a second
            raise FetchError(
                f"answers POST /tokenize with more tokens than a prompt of {len(body)} bytes has"
            )
        return array("I", _decode_tokenized(response.body).tokens)

    def forget(self, load: fleet.EndpointState) -> None:
        """Drop an endpoint that is gone."""
        self._paused_until.pop(load, None)


def _tokenize_request(sent: Body) -> tuple[bytes, array[int] | None, int] | None:
    """The body for `/tokenize`, or the tokens if the client sent them, and the prompt's length.

    None if the tokens do not determine the blocks in a cache: with images, with a salt, or for an API that
    `/tokenize` lacks.
    """
    body = bytes(sent)
    fields = inspect(body)
    if not isinstance(fields, Fields) or bytes(fields.cache_salt):
        return None
    path = CHAT if fields.messages else COMPLETIONS if fields.prompt else ""
    if not path or fields.system or fields.instructions or fields.input:
        return None
    read = prompt.read(fields, path)
    if read.media or b'"image_url"' in read.text or not read.size:
        return None
    if read.tokens:
        return _ids(bytes(fields.prompt), read)
    if path == COMPLETIONS and read.size != len(read.text):
        return None  # a list of prompts
    asked = _decode_members(body)
    if path == CHAT and not asked.add_generation_prompt:
        asked.add_generation_prompt = msgspec.Raw(b"true")
    members = {name: value for name, value in msgspec.structs.asdict(asked).items() if value}
    return msgspec.json.encode(members), None, read.size


def _ids(ids: bytes, read: Prompt) -> tuple[bytes, array[int] | None, int] | None:
    try:
        return b"", array("I", _decode_ids(ids)), read.size
    except (msgspec.DecodeError, OverflowError):
        return None
