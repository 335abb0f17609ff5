"""Describes the flags of a real engine, and parses command lines: `python engine_parser.py vllm`.

Runs with the Python that has the engine. Standard input is a JSON list of command lines. The last line of the
output is a JSON object: version, flags by kind, and for each command line the values that differ from the
defaults, as text, or the error.
"""

import argparse
import contextlib
import importlib
import importlib.util
import io
import json
import sys

VLLM = [f"vllm.entrypoints.{place}.cli_args" for place in ("common", "launchers", "openai")]
"""Where vLLM's parser is, from new releases to old ones."""


def vllm():
    import vllm
    from vllm import platforms

    if not platforms.current_platform.device_type:  # a build for GPUs, on a machine without one
        from vllm.platforms.cpu import CpuPlatform

        platforms._current_platform = CpuPlatform()
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    place = next(name for name in VLLM if importlib.util.find_spec(name))
    parser = importlib.import_module(place).make_arg_parser(FlexibleArgumentParser())
    return vllm.__version__.partition("+")[0], parser


def sglang():
    from importlib.metadata import version

    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    return version("sglang"), parser


def kinds(parser):
    """Names of flags by what may follow them: nothing, also with a negation; one value, which may be given
    several times (append); several values. A dash separates words."""
    found = {}
    for action in parser._actions:
        names = [option[2:].replace("_", "-") for option in action.option_strings if option.startswith("--")]
        if isinstance(action, argparse.BooleanOptionalAction):
            kind = "boolean"
            names = [name for name in names if f"no-{name}" in names or not name.startswith("no-")]
        elif isinstance(action, argparse._AppendAction):
            kind = "append"
        elif action.nargs == 0:
            kind = "set"
        else:
            kind = "several" if action.nargs in ("*", "+") else "one"
        found.setdefault(kind, set()).update(names)
    return {kind: sorted(names) for kind, names in sorted(found.items())}


def read(parser, arguments):
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            given, default = (vars(parser.parse_args(each)) for each in (arguments, ARGUMENTS[parser.prog]))
    except SystemExit:
        return {"error": errors.getvalue()[-500:]}
    return {name: repr(value) for name, value in given.items() if repr(value) != repr(default.get(name))}


ARGUMENTS = {}
"""Of a command line with nothing but what is required, by program."""


def main():
    version, parser = {"vllm": vllm, "sglang": sglang}[sys.argv[1]]()
    ARGUMENTS[parser.prog] = ["--model-path", "x"] if sys.argv[1] == "sglang" else []
    result = {"version": version, "flags": kinds(parser)}
    result["read"] = [read(parser, each) for each in json.load(sys.stdin)]
    sys.stdout.write(f"\n{json.dumps(result)}\n")


if __name__ == "__main__":
    main()
