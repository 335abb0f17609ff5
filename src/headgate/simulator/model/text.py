"""Convert text to tokens and back: the only two places where the simulator deals with language.

A token is four bytes of UTF-8. Every generated word has this length including its leading space, so an output
that returns in the next prompt has the same tokens as when it was generated, as with a real tokenizer.
"""

import random
import sys
from array import array
from collections.abc import Iterable
from typing import TypeAlias

BYTES_PER_TOKEN = 4
"""English has about four characters per token in common byte-pair vocabularies."""
LARGEST_TOKEN = 2**32 - 1

Tokens: TypeAlias = "array[int]"
"""Token IDs, four bytes each."""

_PADDING = b"\xff"  # fills the last token of a text; never occurs in UTF-8
_FIRST_WORD_LIST = "Gate Flow Lock Mill Dams Tide Pond Lake Weir Rain Eddy Ebbs Dike Reed Silt Well"
_WORD_LIST = """
the and was for his her out day man new now old see two way who boy did its let put say she too use air all
any are arm ask bay bed big bow box can car cut dam dig dip dry ebb end eye far few fit gap get had him how
ice jet key lap law leg log lot low map may mud net not off one our own pan pay pit pot raw red row run sea
set sky sun ten tow try wet yes
"""
_FIRST_WORDS = tuple(_FIRST_WORD_LIST.split())
_WORDS = tuple(f" {word}" for word in _WORD_LIST.split())


def tokenize(text: str) -> Tokens:
    """The token IDs of a text; the empty text has none."""
    data = text.encode("utf-8", "surrogatepass")
    tokens = array("I", data + _PADDING * (-len(data) % BYTES_PER_TOKEN))
    if sys.byteorder == "little":
        tokens.byteswap()
    return tokens


def detokenize(tokens: Iterable[int]) -> str:
    """The text of token IDs; invalid bytes become replacement characters."""
    copy = array("I", tokens)
    if sys.byteorder == "little":
        copy.byteswap()
    return copy.tobytes().replace(_PADDING, b"").decode("utf-8", "replace")


class Vocabulary:
    """An endless, reproducible sequence of tokens: each a word with a leading space, except the first."""

    __slots__ = ("_first", "_rng")

    def __init__(self, *seed: object) -> None:
        # Not for secrets: the same seed must produce the same output.
        self._rng = random.Random("/".join(map(str, seed)))  # noqa: S311
        self._first = True

    def next_token(self) -> str:
        if self._first:
            self._first = False
            return self._rng.choice(_FIRST_WORDS)
        return self._rng.choice(_WORDS)

    def text(self, tokens: int) -> str:
        return "".join(self.next_token() for _ in range(tokens))
