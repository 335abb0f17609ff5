"""Compares the embedded API server with a real one. docs/testing-in-a-cluster.md describes its use."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

import asking
import comparing
import rules
import servers
import stories
import table


def main() -> int:
    given = _parser().parse_args()
    if given.command == "table":
        table.write()
        return 0
    with contextlib.ExitStack() as held:
        state = Path(held.enter_context(tempfile.TemporaryDirectory()))
        real = (
            servers.real(given.real) if given.real else held.enter_context(servers.new_real(state / "real"))
        )
        if given.embedded:
            embedded = servers.embedded(given.embedded)
        else:
            embedded = held.enter_context(servers.new_embedded(state / "embedded"))
        return _report(given, real, embedded)


def _report(given: argparse.Namespace, real: asking.Server, embedded: asking.Server) -> int:
    files = stories.files() | {"bounds": rules.load()}
    chosen = [
        story
        for file, told in files.items()
        for story in told
        if given.story == file or given.story in story.name
    ]
    known = comparing.reasons()
    found = servers.compare_all(chosen, real, embedded)
    shown = found if given.all else comparing.unlisted(found, known)
    number = sum(len(story.requests) for story in chosen)
    sys.stdout.write((comparing.grouped if given.grouped else comparing.shown)(shown) + "\n")
    sys.stdout.write(
        f"{number} requests in {len(chosen)} stories: {len(found)} fields differ, {len(shown)} shown\n"
    )
    stale = [] if given.story else comparing.without_effect(found, known)
    sys.stdout.write("".join(f"no longer differs: {each}\n" for each in stale))
    return 1 if shown or stale else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/compare_servers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("table", help="write the table of docs/api-server.md")
    run = commands.add_parser("run", help="send all stories to both servers, and print what differs")
    run.add_argument(
        "story", nargs="?", default="", help="only the stories of this file, or with this in their name"
    )
    run.add_argument("--all", action="store_true", help="print differences that have a reason, too")
    run.add_argument("--grouped", action="store_true", help="print each difference once, with its requests")
    run.add_argument("--real", type=Path, metavar="KUBECONFIG", help="a real server; else one is started")
    run.add_argument(
        "--embedded", type=Path, metavar="STATE", help="state directory of a running `headgate apiserver`"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
