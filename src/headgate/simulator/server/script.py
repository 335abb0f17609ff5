"""The text of a response: decided when it is requested, generated token by token as they fall due."""

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from headgate.simulator.model import FinishReason, Vocabulary
from headgate.simulator.server.generation import Generation
from headgate.simulator.server.schema import value_of

AUTO_CALL_SHARE = 0.5
"""Probability that a response calls a tool if it may choose to."""
FURTHER_CALL_SHARE = 0.45
"""Probability of one more tool call, after each."""
MAX_CALLS = 8
CHARACTERS_PER_TOKEN = 4


class Call(NamedTuple):
    """A tool call."""

    id: str
    name: str
    arguments: str


class Script:
    """The tokens of one choice, in order. A token that ends the response by itself has no text."""

    def __init__(
        self,
        texts: Iterator[str],
        tokens: int,
        reason: FinishReason,
        *,
        plain: bool = False,
        words: int = 0,
        calls: Sequence[Call] = (),
        stop_reason: str | None = None,
    ) -> None:
        self._texts = texts
        self.words_in_all = words
        """How many leading texts are one token each, as a tokenizer sees them."""
        self.tokens = tokens
        self.reason = reason
        self.plain = plain
        """Whether all texts are valid inside JSON strings without escaping."""
        self.calls = calls
        """If not empty, the texts are their arguments, one call after the other, each after an empty text."""
        self.stop_reason = stop_reason

    def next(self) -> str:
        return next(self._texts, "")

    def words(self) -> Iterator[str]:
        """All texts again, for a reader other than `next`; must be called before it starts."""
        self._texts, again = itertools.tee(self._texts)
        return again

    def text(self, tokens: int) -> str:
        """The next tokens together."""
        return "".join(self.next() for _ in range(tokens))


def write(seed: int, own_tokens: int, generation: Generation, index: int, room: int) -> Script:
    """The script of a choice; `room` is the space left in the context, in tokens.

    `own_tokens` is the length if nothing else determines it.
    """
    if generation.tools or generation.schema is not None:
        rng = random.Random(f"{seed}/{generation.seed}/{generation.prompt_sizes}/{index}")  # noqa: S311
        if calls := _calls(generation, rng):
            return _of_calls(calls, generation.max_tokens or room)
        if generation.schema is not None:
            text = msgspec.json.encode(value_of(generation.schema, rng)).decode()
            return _of_text(text, generation, room)
    words = Vocabulary(seed, generation.seed, generation.prompt_sizes, index)
    tokens, reason = _length(own_tokens, generation, room)
    spoken = tokens - 1 if reason == "stop" else tokens
    if generation.stop:
        return _of_text(words.text(spoken), generation, room, reason)
    return Script((words.next_token() for _ in range(spoken)), tokens, reason, plain=True, words=spoken)


def _length(own_tokens: int, generation: Generation, room: int) -> tuple[int, FinishReason]:
    """The requested length, otherwise the default one, within the context."""
    if generation.max_tokens is not None:
        return generation.max_tokens, "length"
    own = max(own_tokens, generation.min_tokens)
    if generation.ignore_eos or room < own:
        return room, "length"
    return own, "stop"


def _of_text(text: str, generation: Generation, room: int, reason: FinishReason = "stop") -> Script:
    """A text with its end, cut at the first stop string and at the limit."""
    found = _first_stop(text, generation)
    if found is not None:
        at, stop = found
        tokens = -(-(at + len(stop)) // CHARACTERS_PER_TOKEN)
        return _of_pieces(_pieces(text[:at]), tokens, "stop", stop_reason=stop)
    cut = _pieces(text)
    tokens = len(cut) + (reason == "stop")
    limit = generation.max_tokens or room
    if tokens > limit:
        return _of_pieces(cut[:limit], limit, "length")
    return _of_pieces(cut, max(1, tokens), reason)


def _of_pieces(cut: list[str], tokens: int, reason: FinishReason, stop_reason: str | None = None) -> Script:
    # Multi-byte characters take more tokens than were generated for them.
    words = len(cut) if all(map(str.isascii, cut)) else 0
    return Script(iter(cut), tokens, reason, words=words, stop_reason=stop_reason)


def _first_stop(text: str, generation: Generation) -> tuple[int, str] | None:
    """Where the first stop string begins, after the minimum tokens."""
    least = generation.min_tokens * CHARACTERS_PER_TOKEN
    limit = None if generation.max_tokens is None else generation.max_tokens * CHARACTERS_PER_TOKEN
    found = [(text.find(stop, least, limit), stop) for stop in generation.stop]
    return min((each for each in found if each[0] >= 0), default=None)


def _calls(generation: Generation, rng: random.Random) -> list[Call]:
    """The tool calls, as the request requires, allows or forbids them."""
    tools = generation.tools
    if not tools or (generation.tool_choice == "auto" and rng.random() >= AUTO_CALL_SHARE):
        return []
    calls = [_call(rng.choice(tools), rng)]
    while generation.parallel_calls and len(calls) < MAX_CALLS and rng.random() < FURTHER_CALL_SHARE:
        calls.append(_call(rng.choice(tools), rng))
    return calls


def _call(tool: tuple[str, Any], rng: random.Random) -> Call:
    name, parameters = tool
    arguments = value_of(parameters, rng) if parameters is not None else {}
    return Call(f"call_{rng.getrandbits(96):024x}", name, msgspec.json.encode(arguments).decode())


def _of_calls(calls: list[Call], limit: int) -> Script:
    texts = [text for call in calls for text in ["", *_pieces(call.arguments)]]
    tokens = len(texts) + 1
    if tokens > limit:
        return Script(iter(texts[:limit]), limit, "length", calls=calls)
    return Script(iter(texts), tokens, "stop", calls=calls)


def _pieces(text: str) -> list[str]:
    """The text, cut into tokens."""
    return [text[at : at + CHARACTERS_PER_TOKEN] for at in range(0, len(text), CHARACTERS_PER_TOKEN)]
