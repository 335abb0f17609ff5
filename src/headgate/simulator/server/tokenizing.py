"""Text to tokens and back, by the tokenizer of the server that a request came to.

Bodies, scripts and answers all count in tokens; what they ask here is answered by what `use` named for the
task that they run in: by default the estimate of four bytes a token, else a tokenizer from a file.
"""

from array import array
from collections.abc import Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from headgate.simulator import model
from headgate.simulator.model import Tokens

if TYPE_CHECKING:
    import tokenizers

CHARACTERS_PER_TOKEN = 4


class Tokenizer(Protocol):
    """A way to see a text as tokens."""

    def tokenize(self, text: str) -> Tokens:
        """The ids of a text; the empty text alone has none."""

    def detokenize(self, tokens: Iterable[int]) -> str:
        """The text of some ids; those that mean nothing have none, or replacement characters."""

    def pieces(self, text: str) -> list[str]:
        """The text, cut where a token begins; no piece is empty."""


class Estimate:
    """The built-in one: four bytes are a token."""

    def tokenize(self, text: str) -> Tokens:
        return model.tokenize(text)

    def detokenize(self, tokens: Iterable[int]) -> str:
        return model.detokenize(tokens)

    def pieces(self, text: str) -> list[str]:
        return fours(text)


class FromFile:
    """One that Hugging Face's library read. Special tokens are not added: there is no chat template here."""

    def __init__(self, tokenizer: "tokenizers.Tokenizer") -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer

    def tokenize(self, text: str) -> Tokens:
        # A text of nothing that the vocabulary knows still is a prompt, which has a token at least.
        return array("I", self._encode(text).ids or ([0] if text else []))

    def detokenize(self, tokens: Iterable[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))

    def pieces(self, text: str) -> list[str]:
        # Several tokens may share a character.
        starts = sorted({0, *(start for start, _ in self._encode(text).offsets)})
        ends = [*starts[1:], len(text)]
        return [text[start:end] for start, end in zip(starts, ends, strict=True) if start < end]

    def _encode(self, text: str) -> "tokenizers.Encoding":
        # The library takes no lone surrogates; a replacement is one character, too, so offsets stay.
        whole = text.encode("utf-8", "replace").decode()
        return self._tokenizer.encode(whole, add_special_tokens=False)


ESTIMATE = Estimate()
_current: ContextVar[Tokenizer] = ContextVar("tokenizer", default=ESTIMATE)


def open_tokenizer(path: str | None) -> Tokenizer:
    """Of a tokenizer.json; None is the estimate. Raises OSError where the file is of no use."""
    if path is None:
        return ESTIMATE
    import tokenizers

    try:
        return FromFile(tokenizers.Tokenizer.from_file(path))
    except Exception as error:  # the library has no class of its own for this
        raise OSError(f"tokenizer: {path} cannot be read as a tokenizer.json: {error}") from error


def use(tokenizer: Tokenizer) -> None:
    """From here on, in this task and those that it starts."""
    _current.set(tokenizer)


def tokenize(text: str) -> Tokens:
    return _current.get().tokenize(text)


def detokenize(tokens: Iterable[int]) -> str:
    return _current.get().detokenize(tokens)


def pieces(text: str) -> list[str]:
    return _current.get().pieces(text)


def fours(text: str) -> list[str]:
    """The text in pieces of four characters."""
    return [text[at : at + CHARACTERS_PER_TOKEN] for at in range(0, len(text), CHARACTERS_PER_TOKEN)]
