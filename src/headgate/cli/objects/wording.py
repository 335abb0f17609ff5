"""The words after a verb: KIND NAME..., KIND/NAME..., or KIND,KIND."""

from __future__ import annotations

from dataclasses import dataclass

import click

from headgate.cli.objects.served import Catalogue, Served


@dataclass(frozen=True)
class Asked:
    """Objects of one kind: those of these names, or all of them."""

    served: Served
    names: tuple[str, ...] | None


def asked(words: tuple[str, ...], catalogue: Catalogue) -> list[Asked]:
    """What the words mean; raises UsageError if they mix the two ways to say it."""
    if any("/" in word for word in words):
        if not all("/" in word for word in words):
            raise click.UsageError("either KIND NAME... or KIND/NAME..., not both")
        return _by_slash(words, catalogue)
    kinds, names = catalogue.meant(words[0]), words[1:]
    if len(kinds) > 1 and names:
        raise click.UsageError(f"{words[0]} is several kinds: say KIND/NAME to name objects")
    return [Asked(kind, names or None) for kind in kinds]


def _by_slash(words: tuple[str, ...], catalogue: Catalogue) -> list[Asked]:
    named: dict[Served, list[str]] = {}
    for word in words:
        kind, _, name = word.partition("/")
        if not kind or not name or "/" in name or "," in kind:
            hint = f"; {kind} alone means all of them" if kind and not name else ""
            raise click.UsageError(f"{word!r} is not KIND/NAME{hint}")
        (served, *more) = catalogue.meant(kind)
        if more:
            raise click.UsageError(f"{kind} is several kinds: name one of them")
        named.setdefault(served, []).append(name)
    return [Asked(served, tuple(names)) for served, names in named.items()]
