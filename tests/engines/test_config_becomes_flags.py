"""The config of a worker becomes arguments that the engine's parser reads as the same values."""

import argparse
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engines import flags
from headgate.engines.flags import Config

NAMES = st.from_regex(r"[a-z]([a-z0-9]|[-_][a-z0-9]){0,20}", fullmatch=True).filter(
    lambda name: not name.startswith(("no-", "no_"))
)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers() | TEXTS
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=8)


def arguments(config, several=()):
    return Config(config).flags(flags.prefixed_with_no, several)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, ["--flag"]),
        (False, ["--no-flag"]),
        ("", ["--flag"]),
        (None, []),
        ("a b", ["--flag", "a b"]),
        (1_000_000, ["--flag", "1000000"]),
        (10**30, ["--flag", "1" + 30 * "0"]),
        (0.9, ["--flag", "0.9"]),
        (-1, ["--flag=-1"]),
        ("-x", ["--flag=-x"]),
        ({"a": [1, "b 'c'"]}, ["--flag", '{"a":[1,"b \'c\'"]}']),
        ([], ["--flag", "[]"]),
    ],
)
def test_a_value_is_written_by_its_type(value, expected):
    """As in no shell: quotes and spaces stay."""
    assert arguments({"flag": value}) == expected


def test_items_of_a_list_may_be_arguments_of_their_own():
    """Where the engine's parser takes several."""
    assert arguments({"x": ["a", 1]}, ["x"]) == ["--x", "a", "1"]
    assert arguments({"x": []}, ["x"]) == []


def test_a_flag_may_be_given_once_for_each_item():
    """Where the engine's parser collects them."""
    assert Config({"x": ["a", "-b"]}).flags(flags.prefixed_with_no, (), ["x"]) == ["--x", "a", "--x=-b"]


@given(st.dictionaries(NAMES, JSON, max_size=6))
def test_a_parser_reads_the_same_values(config):
    """Whatever the values are: argparse, which the engines use, gets every flag that has one."""
    config = {flags.flag_name(name): value for name, value in config.items()}
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    expected = {}
    for name, value in config.items():
        if isinstance(value, bool) or value == "":
            parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, dest=name)
            expected[name] = value is not False
        else:
            parser.add_argument(f"--{name}", type=str, dest=name)
            expected[name] = value
    read = vars(parser.parse_args(arguments(config)))
    for name, value in expected.items():
        found = read[name]
        assert (
            found == value if isinstance(value, str | bool) or value is None else json.loads(found) == value
        )


@given(st.dictionaries(st.text(max_size=30), JSON, max_size=6))
def test_any_config_becomes_arguments_or_problems(config):
    """A flag that cannot be one is reported, and nothing else gets lost."""
    read = Config(config)
    written = read.flags(flags.prefixed_with_no)
    assert all("\0" not in argument for argument in written)
    reported = {problem.key for problem in read.problems}
    given_flags = {argument.partition("=")[0] for argument in written if argument.startswith("--")}
    for key, value in config.items():
        if key not in reported and value is not None:
            name = flags.flag_name(key)
            assert {f"--{name}", f"--no-{name}"} & given_flags


def test_one_flag_in_two_spellings_is_a_problem():
    """Nobody could say which of them counts."""
    (problem,) = Config({"max-model-len": 1, "max_model_len": 2}).problems
    assert problem.key == "max_model_len"
    assert "'max-model-len'" in problem.message
