"""The render service over HTTP: bounded in time and size, and an error that says what is wrong with it."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from headgate.simulator.model import Tokens
from headgate.simulator.server.bodies.multimodal import Features
from headgate.simulator.server.bodies.prompts import TokenIds
from headgate.simulator.server.errors import STOPPED, ApiError

if TYPE_CHECKING:
    import httpx2

MOST_BYTES = 64 * 1024 * 1024
"""Of an answer; the ids of a body of 4 MiB are no more."""
MOST_CONNECTIONS = 100
MOST_TOLD = 500
"""Characters of its own words that an error repeats."""
_log = logging.getLogger(__name__)
T = TypeVar("T")

Ids = Annotated[TokenIds, Meta(min_length=1)]


class Rendered(msgspec.Struct, frozen=True):
    """One prompt, as far as it is read here."""

    token_ids: Ids
    features: Features | None = None


class Tokenized(msgspec.Struct, frozen=True):
    """What vLLM's /tokenize answers."""

    tokens: TokenIds
    token_strs: list[str] | None = None


class Detokenized(msgspec.Struct, frozen=True):
    prompt: str


_chat = msgspec.json.Decoder(Rendered)
_texts = msgspec.json.Decoder(list[Rendered])
_tokenized = msgspec.json.Decoder(Tokenized)
_detokenized = msgspec.json.Decoder(Detokenized)


class RenderError(Exception):
    """It cannot be used; the message says why."""


class RenderService:
    """Asks for tokens of the model by this name. `aclose` it.

    All methods raise `ApiError`: a 400 in its own words for what it refuses, a 500 (as llm-d-inference-sim)
    when it is away, late, or answers nonsense, and a 503 once `cut` ended the wait.
    """

    def __init__(self, url: str, model: str, timeout_s: float, items_timeout_s: float) -> None:
        """`items_timeout_s` is for prompts with images and the like."""
        self._url = url.rstrip("/")
        self._model = model
        self._timeout_s = timeout_s
        self._items_timeout_s = items_timeout_s
        self._client: httpx2.AsyncClient | None = None
        self._asking: set[asyncio.Timeout] = set()
        self._away = False

    async def texts(self, texts: Sequence[str]) -> list[Tokens]:
        """The tokens of each; at least one text, none empty."""
        rendered = await self._ask("/v1/completions/render", {"prompt": list(texts)}, _texts, self._timeout_s)
        if len(rendered) != len(texts):
            raise self._failed(f"answered {len(rendered)} prompts for {len(texts)}")
        return [self._tokens(each.token_ids) for each in rendered]

    async def chat(self, form: dict[str, Any], *, items: bool) -> tuple[Tokens, Features | None]:
        """The tokens of a conversation in the form of OpenAI's chats, and where its `items` are in them."""
        timeout_s = self._items_timeout_s if items else self._timeout_s
        rendered = await self._ask("/v1/chat/completions/render", form, _chat, timeout_s)
        return self._tokens(rendered.token_ids), rendered.features

    async def tokenize(self, form: dict[str, Any]) -> Tokenized:
        """For /tokenize; `form` is its body."""
        return await self._ask("/tokenize", form, _tokenized, self._timeout_s)

    async def detokenize(self, tokens: Sequence[int]) -> str:
        """For /detokenize."""
        told = await self._ask("/detokenize", {"tokens": list(tokens)}, _detokenized, self._timeout_s)
        return told.prompt

    def cut(self) -> None:
        """End what waits for an answer."""
        now = asyncio.get_running_loop().time()
        waiting, self._asking = self._asking, set()
        for limit in waiting:
            if not limit.expired():
                limit.reschedule(now)

    async def aclose(self) -> None:
        self.cut()
        if self._client is not None:
            await self._client.aclose()

    async def _ask(
        self, path: str, form: dict[str, Any], decoder: msgspec.json.Decoder[T], timeout_s: float
    ) -> T:
        body = msgspec.json.encode(form | {"model": self._model})
        try:
            async with asyncio.timeout(timeout_s) as limit:
                self._asking.add(limit)
                status, answer = await self._post(path, body)
            told = decoder.decode(answer) if status == 200 else None
        except TimeoutError as error:
            if limit not in self._asking:
                raise STOPPED from error
            raise self._failed(f"did not answer within {timeout_s:g} s") from error
        except RenderError as error:
            raise self._failed(str(error)) from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._failed(f"answered {path} with what is no tokens: {error}") from error
        finally:
            self._asking.discard(limit)
        if status in (400, 422):
            raise ApiError(400, f"The render service refuses this: {_words(answer)}")
        if told is None:
            raise self._failed(f"answered {path} with {status}: {_words(answer)}")
        if self._away:
            self._away = False
            _log.warning("the render service %s answers again", self._url)
        return told

    async def _post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer. Raises RenderError."""
        import httpx2  # takes a while, and most engines never need it

        from headgate import http_clients

        if self._client is None:
            limits = httpx2.Limits(max_connections=MOST_CONNECTIONS)
            transport = http_clients.transport(limits=limits, trust_env=False)
            self._client = httpx2.AsyncClient(transport=transport, trust_env=False, timeout=None)
        headers = {"content-type": "application/json"}
        answer = bytearray()
        try:
            async with self._client.stream(
                "POST", self._url + path, content=body, headers=headers
            ) as response:
                async for part in response.aiter_bytes():
                    answer += part
                    if len(answer) > MOST_BYTES:
                        raise RenderError(f"answered {path} with more than {MOST_BYTES} bytes")
        except httpx2.HTTPError as error:
            raise RenderError(f"is not reached: {error or type(error).__name__}") from error
        return response.status_code, bytes(answer)

    def _tokens(self, ids: TokenIds) -> Tokens:
        try:
            return array("I", ids)
        except OverflowError as error:
            raise self._failed("answered with ids beyond 32 bits") from error

    def _failed(self, why: str) -> ApiError:
        """The error for a client; the log tells when this begins and ends, not each."""
        problem = f"the render service {self._url} {why}"
        if not self._away:
            self._away = True
            _log.warning("%s; until it answers, what needs it is refused", problem)
        return ApiError(500, f"Failed to tokenize: {problem}")


def _words(answer: bytes) -> str:
    """The message of an error object, or the beginning of what else it is."""
    try:
        message = msgspec.json.decode(answer)["error"]["message"]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, RecursionError):
        message = answer.decode("utf-8", "replace")
    return str(message)[:MOST_TOLD]
