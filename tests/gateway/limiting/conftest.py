"""Routes with a limit per month, whose refill is negligible during a test."""

import json
from collections.abc import Callable

import msgspec
import pytest

from headgate import api, routing
from headgate.flow.limits import RouteLimit

ROUTE = api.ObjectRef("ModelRoute", "default", "route")


def per_month(input: int | None = None, output: int | None = None, **more: object) -> routing.TokenLimits:
    return routing.TokenLimits(input=input, output=output, unit="month", unit_s=30 * 86_400, **more)


@pytest.fixture(name="per_month")
def _per_month() -> Callable[..., routing.TokenLimits]:
    """Makes a limit."""
    return per_month


def prompt(tokens: int, **more: object) -> dict[str, object]:
    """A request whose prompt is estimated at so many tokens, of four bytes."""
    return {"model": "m", "prompt": "x" * (4 * tokens - 1), **more}


@pytest.fixture(name="prompt")
def _prompt() -> Callable[..., dict[str, object]]:
    """Makes a request."""
    return prompt


def counted(prompt_tokens: int, completion_tokens: int) -> bytes:
    """A whole answer with its counts."""
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    return json.dumps({"choices": [], "usage": usage}, separators=(",", ":")).encode()


@pytest.fixture(name="counted")
def _counted() -> Callable[[int, int], bytes]:
    """Makes an answer."""
    return counted


@pytest.fixture
def limit_of() -> Callable[[object], RouteLimit]:
    """The limit of the route that a gateway serves."""
    return lambda gateway: gateway.shell.plane.routes.limits.by_route[ROUTE]


@pytest.fixture
def left(limit_of) -> Callable[[object], tuple[int | None, int | None]]:
    """Tokens of input and output that are left; None where there is no limit."""

    def of(gateway) -> tuple[int | None, int | None]:
        limit, now = limit_of(gateway), gateway.shell.now()
        tokens = [
            None if account is None else round(account.budget.available(now))
            for account in (limit.input, limit.output)
        ]
        return tokens[0], tokens[1]

    return of


@pytest.fixture
def learn_answers() -> Callable[[object, int], None]:
    """Teaches a gateway how long the answers of the model "m" are."""
    return lambda gateway, tokens: gateway.shell.plane.sizes.answers.learn("m", tokens)


@pytest.fixture
def changed() -> Callable[..., msgspec.Struct]:
    """Makes a value like another, with other members."""
    return msgspec.structs.replace
