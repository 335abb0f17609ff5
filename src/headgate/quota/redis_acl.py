"""Explains denials by a Redis ACL, and how to grant the permission."""

from __future__ import annotations

import re

from redis.exceptions import NoPermissionError, ResponseError

from headgate.quota import redis_members, redis_script

_CALL = re.compile(r"redis\.call\('(\w+)'")
_LINE = re.compile(r"@user_script: ?(\d+)")
_COMMAND = re.compile(r"run the '([^']+)' command")
KEYS = f"{redis_script.PREFIX}:*", f"{redis_script.OWN_PREFIX}:*"
COMMANDS = (
    "eval",
    "evalsha",
    *sorted({each.lower() for each in _CALL.findall(redis_script.CLAIM + redis_members.NOTE)}),
)


def forbids_command(error: ResponseError) -> bool:
    """Whether the error is about a command, by its name or inside a script, rather than about a key."""
    return bool(_COMMAND.search(str(error))) or "can't run this command" in str(error)


def is_denial(error: ResponseError) -> bool:
    text = str(error)
    return isinstance(error, NoPermissionError) or "NOPERM" in text or "can't run this command" in text


def denial(error: ResponseError, script: str, key: str, user: str | None) -> str:
    """What was denied to the user that called the script with the key, and what the ACL must allow."""
    command = _command(str(error), script)
    what = f"the command {command}" if command else f"the key {key}"
    user = user or "default"
    allow = " ".join([f"~{each}" for each in KEYS] + [f"+{each}" for each in COMMANDS])
    return f"its ACL forbids {what} to the user {user}; what is needed: ACL SETUSER {user} {allow}"


def _command(error: str, script: str) -> str | None:
    """If a call within a script was denied, the error contains only its line."""
    named = _COMMAND.search(error)
    if named is not None:
        return named[1].upper() if named[1].lower() in COMMANDS else "that the gateway needs"
    line = _LINE.search(error)
    call = _CALL.search(script.splitlines()[int(line[1]) - 1]) if line is not None else None
    return call[1] if call is not None else None
