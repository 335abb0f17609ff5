"""Formats of strings: what Kubernetes checks is checked, anything else is a remark."""

from __future__ import annotations

import pytest

from headgate.kubeschema import structural

VALID = {
    "bsonobjectid": ["507f1f77bcf86cd799439011"],
    "byte": ["", "aGk="],
    "cidr": ["10.0.0.0/8", "fd00::/8"],
    "email": ["a@example.com", "Ann <a@example.com>"],
    "hexcolor": ["#fff", "FF00aa"],
    "hostname": ["example.com", "localhost", "a-b.c"],
    "ipv4": ["10.0.0.1"],
    "ipv6": ["::1"],
    "mac": ["01:23:45:67:89:ab", "01-23-45-67-89-AB"],
    "rgbcolor": ["rgb(0, 128,255)"],
    "uri": ["https://example.com:8080/a%20b?c=d#e", "/absolute", "urn:isbn:1", "https://[::1]/"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000"],
    "uuid4": ["123e4567-e89b-42d3-a456-426614174000"],
    "anything-else": ["", "what you like"],
}
INVALID = {
    "bsonobjectid": ["507f1f77bcf86cd79943901", "xyz"],
    "byte": ["a"],
    "cidr": ["10.0.0.0", "10.0.0.0/33"],
    "email": ["example.com", "a@b@c", "a b@example.com"],
    "hexcolor": ["#ffff", "red"],
    "hostname": ["", "-a.com", "a..b", "under_score.com", "a" * 64],
    "ipv4": ["10.0.0.256", "::1"],
    "ipv6": ["10.0.0.1"],
    "mac": ["01:23:45:67:89", "0123456789ag"],
    "rgbcolor": ["rgb(0,0)", "rgb(256,0,0)"],
    "uri": ["", "example.com", "../relative", "https://example.com:port/", "https://a b/", "/a%zz"],
    "uuid": ["123e4567"],
    "uuid4": ["123e4567-e89b-12d3-a456-426614174000"],
}


def is_valid(format_: str, text: str) -> bool:
    schema = {"type": "object", "properties": {"a": {"type": "string", "format": format_}}}
    return structural.validate(schema, {"a": text}) == []


@pytest.mark.parametrize(("format_", "text"), [(f, text) for f, texts in VALID.items() for text in texts])
def test_a_value_of_the_format_is_taken(format_: str, text: str) -> None:
    """In each of its spellings."""
    assert is_valid(format_, text)


@pytest.mark.parametrize(("format_", "text"), [(f, text) for f, texts in INVALID.items() for text in texts])
def test_another_value_is_refused(format_: str, text: str) -> None:
    """With the name of the format in the message."""
    assert not is_valid(format_, text)


def test_a_long_value_is_judged_at_once() -> None:
    """No expression goes back and forth over what a stranger sent."""
    for format_ in VALID:
        for text in ("a" * 100_000, "a." * 50_000, " " * 100_000, "rgb(" + " " * 100_000, "<" * 100_000):
            is_valid(format_, text)
