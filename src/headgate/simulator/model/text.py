"""Text for tokens and tokens for text: the two places where the simulator pretends to know language."""

import random

CHARACTERS_PER_TOKEN = 4
"""English averages about four characters a token in the usual byte-pair vocabularies."""

_WORD_LIST = """
the of and to in is that for it as with on be at by this from or which one all would there their what up out
if about who get when make can like time no just him know take people into year your good some water gate flow
canal river field stone bridge mill wheel level bank spring rain source stream channel lock open close raise
lower measure share turn carry hold reach fill drain rest move slow quick deep wide
"""
_WORDS = tuple(_WORD_LIST.split())


def estimate_tokens(characters: int) -> int:
    """How many prompt tokens this many characters are taken for: at least one."""
    return max(1, -(-characters // CHARACTERS_PER_TOKEN))


class Vocabulary:
    """An endless, reproducible sequence of tokens: each a word with its leading blank, but for the first."""

    __slots__ = ("_first", "_rng")

    def __init__(self, *seed: object) -> None:
        # Not for secrets: the same seed must give the same answer.
        self._rng = random.Random("/".join(map(str, seed)))  # noqa: S311
        self._first = True

    def next_token(self) -> str:
        word = self._rng.choice(_WORDS)
        if self._first:
            self._first = False
            return word.capitalize()
        return f" {word}"

    def text(self, tokens: int) -> str:
        return "".join(self.next_token() for _ in range(tokens))
