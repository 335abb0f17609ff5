"""`headgate simulate as`: a simulated engine in place of the one that a command line starts."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click

from headgate.cli.simulate.engine import engine


class _Program(NamedTuple):
    """How the command line of an engine begins, and the names of its options here."""

    api: str
    words: tuple[str, ...]
    takes_model: bool
    """Whether the model may follow as an argument."""


_SHELLS = ("sh", "bash")
_RAY_WORKER = re.compile(r"\bray start\b[^\n]* --address\b")
"""What the script of a Pod that serves nothing itself has."""
_INTERPRETER = re.compile(r"python(3(\.[0-9]+)?)?")
_PROGRAMS = (
    _Program("vllm", ("-m", "vllm.entrypoints.openai.api_server"), False),
    _Program("vllm", ("vllm", "serve"), True),
    _Program("vllm", ("vllm",), False),
    _Program("sglang", ("-m", "sglang.launch_server"), False),
    _Program("sglang", ("sglang", "serve"), False),
    _Program("sglang", ("sglang",), False),
    _Program("trtllm", ("trtllm-serve", "serve"), True),
    _Program("trtllm", ("trtllm-serve",), True),
)
_RENAMED = {
    "--model-path": "--model",
    "--lora-paths": "--lora-modules",
    "--dp-size": "--data-parallel-size",
    "--dp": "--data-parallel-size",
    "--max-running-requests": "--max-num-seqs",
    "--context-length": "--max-model-len",
    "--disaggregation-mode": "--role",
    "--disaggregation-bootstrap-port": "--bootstrap-port",
}
"""Options of SGLang."""
_ROLES = {"kv_producer": "prefill", "kv_consumer": "decode", "kv_both": "both", "null": "both"}
_SEVERAL = ("--served-model-name", "--lora-modules")
_AS_REAL = "--check-adapter-paths"
_NOT_THEIRS = ("--engine", "--profile", "--role", "--config", "--faults")
"""Options that mean something else, or nothing, to the engines."""


@click.command(
    "as",
    short_help="Simulate the engine that a command line starts.",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND...")
@click.pass_context
def stand_in(context: click.Context, words: tuple[str, ...]) -> None:
    """Serve the OpenAI API from a simulated engine, in place of the one that COMMAND starts.

    COMMAND is a command line of vLLM, SGLang or TensorRT-LLM, such as `python3 -m
    vllm.entrypoints.openai.api_server --model /weights`. Its flags that have no effect on a simulated engine
    are ignored. OPTIONS are those of `headgate simulate engine`.

    COMMAND may be a shell's script with the engine as its arguments: the script does not run. If the script
    joins the Ray cluster of another Pod, nothing is served until the command is stopped.
    """
    if not words or words[0] in ("-h", "--help"):
        click.echo(context.get_help())
        return
    words, script = _without_script(words)
    if script is not None and _RAY_WORKER.search(script):
        _wait_until_stopped()
        return
    options, program, flags = _parted(words)
    known = {name: each for each in engine.params if isinstance(each, click.Option) for name in _names(each)}
    kept, ignored = [], []
    for flag, values in _flags(_model_named(program, flags)):
        told = _translated(flag, values, known)
        if told is None:
            ignored.append(flag)
        else:
            kept += told
    if ignored:
        click.echo(f"ignored flags of {program.api}: {' '.join(dict.fromkeys(ignored))}", err=True)
    with engine.make_context(
        "engine", ["--engine", program.api, _AS_REAL, *kept, *options], parent=context
    ) as made:
        engine.invoke(made)


def _names(option: click.Option) -> list[str]:
    return [*option.opts, *option.secondary_opts]


def _without_script(words: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """The words without `sh -c SCRIPT NAME`, and the script; engines.vllm starts Ray this way."""
    for at, word in enumerate(words):
        if word.rpartition("/")[2] in _SHELLS and words[at + 1 : at + 2] == ("-c",) and len(words) > at + 2:
            return (*words[:at], *words[at + 4 :]), words[at + 2]
    return words, None


def _wait_until_stopped() -> None:
    """Return on SIGTERM or SIGINT, also as the first process of a container."""
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    click.echo("simulating a Ray worker: it serves nothing itself")
    signal.sigwait(ends)


def _parted(words: Sequence[str]) -> tuple[Sequence[str], _Program, Sequence[str]]:
    """The options of the simulator, the program, and its flags. Raises click.UsageError."""
    for at, word in enumerate(words):
        name = word.rpartition("/")[2]
        begin = at + 1 if _INTERPRETER.fullmatch(name) else at
        rest = (words[begin] if begin > at else name, *words[begin + 1 :]) if begin < len(words) else ()
        for program in _PROGRAMS:
            if tuple(rest[: len(program.words)]) == program.words:
                return words[:at], program, rest[len(program.words) :]
    known = ", ".join(dict.fromkeys(" ".join(program.words) for program in _PROGRAMS))
    raise click.UsageError(f"no engine in the command line {' '.join(words)!r}; known are {known}")


def _model_named(program: _Program, flags: Sequence[str]) -> Sequence[str]:
    if program.takes_model and flags and not flags[0].startswith("-"):
        return ("--model", *flags)
    return flags


def _flags(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each flag with the words that follow it, or the text after its equals sign."""
    flag, values = "", list[str]()
    for word in words:
        if word.startswith("--") or (word.startswith("-") and word[1:2].isalpha()):
            if flag:
                yield flag, values
            flag, equals, value = word.partition("=")
            flag = flag.replace("_", "-")
            values = [value] if equals else []
        else:
            values.append(word)
    if flag:
        yield flag, values


def _translated(flag: str, values: list[str], known: dict[str, click.Option]) -> list[str] | None:
    """The words for the simulated engine; None if it has no such option, or not with this value."""
    if flag == "--kv-transfer-config":
        return _role(values)
    name = _RENAMED.get(flag, flag)
    if flag == "--disaggregation-mode":
        values = [_ROLES.get(value, value) for value in values]
    option = known.get(name)
    if option is None or flag in _NOT_THEIRS:
        return None
    if option.is_flag:
        return [name]
    if not values:
        return None
    try:
        for value in values:
            option.type.convert(value, option, None)
    except click.UsageError:
        return None  # such as a length of 32k, or a choice that only the engine has
    if name not in _SEVERAL:
        return [name, values[0]]
    return [word for value in values for word in (name, value)]


def _role(values: list[str]) -> list[str] | None:
    """The role of vLLM's connector."""
    try:
        config = json.loads(values[0]) if values else {}
    except (ValueError, RecursionError):
        return None
    role = _ROLES.get(str(config.get("kv_role"))) if isinstance(config, dict) else None
    return ["--role", role] if role is not None else None
