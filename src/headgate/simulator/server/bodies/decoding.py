"""From bytes to a body, or to an error that names the field."""

import re
from typing import TypeVar

import msgspec

from headgate.simulator.server.errors import ApiError

T = TypeVar("T")


def decode(decoder: "msgspec.json.Decoder[T]", body: bytes) -> T:
    """Raises `ApiError` that names the field."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        missing = re.search(r"missing required field `(\w+)`", message)
        field = (path.rstrip("`") + (f".{missing[1]}" if missing else "")).removeprefix(".")
        raise ApiError(400, f"{field}: {message}" if field else message, param=field or None) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(400, f"The body is not valid JSON: {error}") from error
    except RecursionError as error:
        raise ApiError(400, "The body is nested too deeply") from error


def wrong(field: str, problem: str) -> ApiError:
    """A 400 whose message begins with the field."""
    return ApiError(400, f"{field}: {problem}", param=field)
