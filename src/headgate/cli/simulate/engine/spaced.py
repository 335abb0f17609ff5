"""Options that take several words, as `--served-model-name a b`, which click has no way to say."""

from __future__ import annotations

import click

_SPACED = ("--served-model-name", "--lora-modules", "--failure-types")


class SpacedCommand(click.Command):
    """Each further word of such an option is given the option's name. The command has no arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _spread(args))


def _spread(words: list[str]) -> list[str]:
    spread: list[str] = []
    option = ""
    for word in words:
        if word.startswith("-"):
            option = word if word in _SPACED else ""
            spread.append(word)
        elif option and spread[-1] != option:
            spread += [option, word]
        else:
            spread.append(word)
    return spread
