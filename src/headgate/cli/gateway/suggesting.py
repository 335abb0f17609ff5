"""Suggestions for a setting that does not exist, or for a value that a setting does not accept."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from headgate.cli import machine_state
from headgate.cli.validation import spelling
from headgate.cli.validation.spelling import closest
from headgate.gateway import Setting, old_settings, setting_types

_ALL = "`headgate gateway --help` lists all settings"
_TRUTHS = dict.fromkeys(("true", "yes", "on", "1"), "true") | dict.fromkeys(
    ("false", "no", "off", "0"), "false"
)
_ALIKE = 0.9
"""Minimum similarity to one of our variables for a variable outside all sections to be reported."""
_NEAR = 0.8
"""Minimum similarity of a name in the file to a name in another section."""
_CANDIDATES = 6
_UNITS = {"", "s", "ms", "sec", "seconds"}
_BY_OTHER_NAMES = {
    (
        "authentication",
        "api_key",
        "api_keys",
        "jwt",
        "oidc",
    ): "set those in auth, as docs/keys-and-tenants.md says",
    (
        "tls",
        "ssl",
        "https",
        "cert",
        "certificate",
    ): "set tls.cert_files and tls.key_files, as docs/tls.md says",
}
"""What other gateways call sections of this one, and how to set them."""


def of_name(name: str, section: str = "") -> str:
    """Suggestion for an unknown name in the file, inside a section or at the top level."""
    if not section and name in setting_types.settings():
        outer, _, inner = name.partition(".")
        return f"nest it: write {inner} below {outer}, as in {outer}: {{{inner}: ...}}"
    word = name.replace("-", "_").replace(".", "_")
    known = {f"{section}.{word}", *_by_word().get(word, ())} & setting_types.settings().keys()
    siblings = _settings_of(section) if section else ()
    if section and (own := [path for path in known if path.startswith(f"{section}.")]):
        return _meant(*own)
    if found := _with_words_of(word, siblings):
        return _meant(*(setting.path for setting in found))
    if len(known) == 1:
        return _meant(known.pop())
    if near := closest(word, [each.name for each in siblings]):
        return _meant(f"{section}.{near}")
    if told := _of_other_name(word):
        return told
    names = [each.name for each in setting_types.sections()]
    if not section and (alike := difflib.get_close_matches(word, names, 1, _ALIKE)):
        return _meant(alike[0])
    if not section and (found := _with_words_of(word, setting_types.settings().values())):
        return _meant(*(setting.path for setting in found))
    if alike := difflib.get_close_matches(word, _by_word(), 1, _NEAR):
        return _meant(_by_word()[alike[0]][0])
    return of_section(section) if section else _ALL


def of_section(section: str) -> str:
    """The settings that a section has."""
    names = [each.name for each in _settings_of(section)]
    more = ", ..." if len(names) > 8 else ""
    return f"{section} has {', '.join(names[:8])}{more}"


def of_variable(name: str) -> str:
    """Suggestion for an environment variable that matches no setting."""
    key = name.removeprefix(setting_types.ENVIRONMENT_PREFIX).lower()
    if path := old_settings.RENAMED.get(key):
        return _meant(setting_types.settings()[path].variable)
    for section in setting_types.sections():
        if key.startswith(f"{section.name}_"):
            word = key.removeprefix(f"{section.name}_")
            if found := _with_words_of(word, section.settings):
                return _meant(*(setting.variable for setting in found))
            variables = {each.name: each.variable for each in section.settings}
            near = closest(word, variables)
            return _meant(variables[near]) if near else _ALL
    variables = {key: setting.variable for key, setting in setting_types.by_key().items()}
    variables["apiserver_port"] = machine_state.APISERVER_PORT_VARIABLE
    if alike := difflib.get_close_matches(key, variables, 1, _ALIKE):
        return _meant(variables[alike[0]])
    if told := _of_other_name(key) or _of_other_name(key.partition("_")[0]):
        return told
    if found := _with_words_of(key, setting_types.settings().values()):
        return _meant(*(setting.variable for setting in found))
    return _ALL


def of_value(setting: Setting, value: object) -> str:
    """Suggestion for a value that a setting does not accept."""
    if setting.choices and isinstance(value, str) and (near := closest(value, setting.choices)):
        return _meant(near)
    if setting.is_list and isinstance(value, str | int | float):
        return f"write a list: [{value}]"
    default = setting.default
    if isinstance(default, bool):
        if str(value).lower() in _TRUTHS:
            return f"write {_TRUTHS[str(value).lower()]}"
        return f"its default is {str(default).lower()}"
    if not isinstance(default, int | float):
        return ""
    if isinstance(value, str) and _is_number_of(setting, value):
        return f"remove the quotes: {value}"
    number = spelling.without_unit(value) if isinstance(value, str) else None
    if number is not None and setting.takes(number):
        return f"write {number}"
    return f"its default is {default if isinstance(default, int) else f'{default:g}'}"


def _is_number_of(setting: Setting, text: str) -> bool:
    try:
        setting.parse(text)
    except ValueError:
        return False
    return True


def _meant(*words: str) -> str:
    first, last = ", ".join(words[:-1]), words[-1]
    return f"did you mean {first} or {last}?" if first else f"did you mean {last}?"


def _with_words_of(word: str, settings: Iterable[Setting]) -> list[Setting]:
    """Settings whose name contains all words of `word`; none if there are too many to list."""
    words = set(word.split("_")) - _UNITS
    found = [each for each in settings if words and words <= set(each.name.split("_"))]
    return found if len(found) <= _CANDIDATES else []


def _of_other_name(word: str) -> str:
    """Suggestion for a name that other gateways have for a section."""
    return next((told for words, told in _BY_OTHER_NAMES.items() if word in words), "")


def _settings_of(section: str) -> tuple[Setting, ...]:
    return next(each.settings for each in setting_types.sections() if each.name == section)


def _by_word() -> dict[str, list[str]]:
    """Words to match a misspelling against, each with the sections or setting paths that it may mean."""
    found: dict[str, list[str]] = {section.name: [section.name] for section in setting_types.sections()}
    for old, path in old_settings.RENAMED.items():
        found.setdefault(old, []).append(path)
    for setting in setting_types.settings().values():
        for word in (setting.key, setting.name):
            if setting.path not in found.setdefault(word, []):
                found[word].append(setting.path)
    return found
