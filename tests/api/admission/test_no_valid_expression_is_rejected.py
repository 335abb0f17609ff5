"""The rule in definitions reads only cheap expressions, and { as |; it rejects none that RE2 takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import api
from headgate.kubeschema import cel, regex

PIECES = st.sampled_from(
    [
        *("a", "é", "-", "{", "}", "|", "^", "$", ".", "*", "+", "?", "(", ")", "[", "]", "[^", "\\", "\\{"),
        *(
            "{2}",
            "{1,}",
            "{,3}",
            "[{-}]",
            "[a-{]",
            "[|-}]",
            "\\pL",
            "\\p{L}",
            "\\x{41}",
            "\\x41",
            "\\d",
            "\\W",
        ),
        *("(?i)", "(?:", "(?P<n>", "[[:alpha:]]", "\\Q{\\E", "x" * 64),
    ]
)


def _rule() -> cel.Expression:
    definition = next(d for d in api.custom_definitions() if d["spec"]["names"]["kind"] == "ModelRoute")
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    match = schema["properties"]["rules"]["items"]["properties"]["modelMatch"]
    (rule,) = match["properties"]["uri"]["properties"]["regex"]["x-kubernetes-validations"]
    return cel.Expression(rule["rule"])


RULE = _rule()


@given(st.lists(PIECES, max_size=12).map("".join))
def test_what_re2_takes_is_admitted(expression: str) -> None:
    try:
        regex.compiled(expression)
    except regex.RegexError:
        return
    assert RULE.evaluate(expression) is True


@pytest.mark.parametrize("expression", ["(", "[z-a]", "a**(", "a{2}(", "(?=a)", "x" * 127 + "("])
def test_what_re2_rejects_is_rejected(expression: str) -> None:
    with pytest.raises(cel.CelError):
        RULE.evaluate(expression)


@pytest.mark.parametrize("expression", ["a{1000}", "a{1001}", r"\pL(", "(é", r"[\x{100}", "x" * 128 + "("])
def test_costly_expressions_are_left_to_others(expression: str) -> None:
    """Compiled they are by the webhook, the embedded API server and the gateway, each within a bound."""
    assert RULE.evaluate(expression) is True
