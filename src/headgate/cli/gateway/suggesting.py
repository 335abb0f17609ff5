"""What a person most likely meant by a setting that does not exist, or by a value that it does not take."""

from __future__ import annotations

import difflib

from headgate.cli.validation import numbers
from headgate.cli.validation.spelling import closest
from headgate.gateway import Setting, old_settings, setting_types

_ALL = "`headgate gateway --help` lists all settings"
_TRUTHS = dict.fromkeys(("true", "yes", "on", "1"), "true") | dict.fromkeys(
    ("false", "no", "off", "0"), "false"
)
_ALIKE = 0.9
"""How much a variable outside of all sections must look like one of ours to be taken for it."""


def of_name(name: str, section: str = "") -> str:
    """For a name in the file that no setting has, in a section or outside of all."""
    word = name.replace("-", "_").replace(".", "_")
    known = {f"{section}.{word}", *_by_word().get(word, ())} & setting_types.settings().keys()
    if len(known) == 1:
        return _meant(known.pop())
    siblings = [each.name for each in _settings_of(section)] if section else []
    if near := closest(word, siblings):
        return _meant(f"{section}.{near}")
    if near := closest(word, _by_word()):
        return _meant(_by_word()[near][0])
    return of_section(section) if section else _ALL


def of_section(section: str) -> str:
    """What may stand in a section."""
    names = [each.name for each in _settings_of(section)]
    more = ", ..." if len(names) > 8 else ""
    return f"{section} has {', '.join(names[:8])}{more}"


def of_variable(name: str) -> str:
    """For an environment variable that no setting has; "" where it does not look like one of ours."""
    key = name.removeprefix(setting_types.ENVIRONMENT_PREFIX).lower()
    if path := old_settings.RENAMED.get(key):
        return _meant(setting_types.settings()[path].variable)
    for section in setting_types.sections():
        if key.startswith(f"{section.name}_"):
            variables = {each.name: each.variable for each in section.settings}
            near = closest(key.removeprefix(f"{section.name}_"), variables)
            return _meant(variables[near]) if near else _ALL
    found = difflib.get_close_matches(key, setting_types.by_key(), 1, _ALIKE)
    return _meant(setting_types.by_key()[found[0]].variable) if found else ""


def of_value(setting: Setting, value: object) -> str:
    """For a value that a setting does not take."""
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
    number = numbers.without_unit(value) if isinstance(value, str) else None
    if number is not None and setting.takes(number):
        return f"write {number}"
    return f"its default is {default if isinstance(default, int) else f'{default:g}'}"


def _meant(word: str) -> str:
    return f"did you mean {word}?"


def _settings_of(section: str) -> tuple[Setting, ...]:
    return next(each.settings for each in setting_types.sections() if each.name == section)


def _by_word() -> dict[str, list[str]]:
    """Words that may be meant for sections and paths of settings: each with those that it can mean."""
    found: dict[str, list[str]] = {section.name: [section.name] for section in setting_types.sections()}
    for old, path in old_settings.RENAMED.items():
        found.setdefault(old, []).append(path)
    for setting in setting_types.settings().values():
        for word in (setting.key, setting.name):
            if setting.path not in found.setdefault(word, []):
                found[word].append(setting.path)
    return found
