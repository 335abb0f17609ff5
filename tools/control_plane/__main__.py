"""A real Kubernetes control plane for tests. docs/testing-in-a-cluster.md describes its use."""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - any Python may be used to run this
    sys.exit("tools/control_plane needs Python 3.11 or newer")

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

import build
import helm
import keda
import lws
import monitoring
import namespace
import programs
import servers
import suites

LEFT_OUT = "The tests in a real control plane are left out: "
HOW_TO_GET = (
    "`make control-plane` builds it in about eight minutes, and needs Go 1.26 or newer; "
    f"or name a directory that has the programs: {programs.DIRECTORY_VARIABLE}=DIR"
)


def main() -> int:
    given = _parser().parse_args()
    try:
        match given.command:
            case "build":
                _say(f"The control plane is in {_build(os.environ)}")
            case "build-lws":
                _say(f"LWS is in {lws.build_it(os.environ)}")
            case "build-helm":
                _say("Helm is in " + ", ".join(str(each) for each in helm.build_all(os.environ)))
            case "build-monitoring":
                _say("\n".join(str(each) for each in monitoring.build_all(os.environ).values()))
            case "build-keda":
                _say(f"KEDA is in {keda.build_it(os.environ)}")
            case "build-suites":
                _say("\n".join(str(each) for each in suites.build_all(given.names, os.environ)))
            case "check":
                return _check(os.environ)
            case "path":
                _say(str(_found(os.environ).directory))
            case "path-helm":
                _say("\n".join(str(each) for each in helm.find(os.environ)))
            case "path-monitoring":
                _say("\n".join(str(each) for each in monitoring.find(os.environ).values()))
            case "path-keda":
                _say(str(keda.find(os.environ) or ""))
            case "path-suite":
                _say(str(suites.find(given.name, os.environ) or ""))
            case "up":
                servers.up(_found(os.environ), given.state, has_audit=given.audit, is_bare=given.bare)
            case "lws":
                return lws.run(_found(os.environ), _found_lws(os.environ), given.state)
            case "down":
                servers.down(given.state)
            case "run":
                namespace.run(given.words)
            case "beside":
                return servers.beside(_found(os.environ), given.words)
    except programs.ControlPlaneError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/control_plane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build the programs with Go, unless they are there already")
    commands.add_parser("build-lws", help="build LWS, the controller of LeaderWorkerSets")
    commands.add_parser("build-helm", help="build the versions of Helm that the chart is tested with")
    commands.add_parser("path-helm", help="print the paths of the Helms that are found, one on each line")
    commands.add_parser("build-monitoring", help="build Prometheus and its adapter, unless they are found")
    commands.add_parser("path-monitoring", help="print the paths of Prometheus and its adapter")
    commands.add_parser("build-keda", help="build KEDA, unless it is there already")
    commands.add_parser("path-keda", help="print the directory of KEDA; nothing if there is none")
    some = commands.add_parser("build-suites", help="build conformance suites and the programs they need")
    some.add_argument("names", nargs="*", metavar="NAME", help=", ".join(suites.NAMES))
    one = commands.add_parser("path-suite", help="print the directory of a suite; nothing if there is none")
    one.add_argument("name", choices=suites.NAMES)
    commands.add_parser("check", help="report whether the tests can run here; if not, exit with status 1")
    commands.add_parser("path", help="print the directory of the programs")
    up = commands.add_parser("up", help="start a control plane and print its kubeconfig; Ctrl-C ends it")
    up.add_argument("--audit", action="store_true", help="write what service accounts do to audit.log")
    up.add_argument("--bare", action="store_true", help="without scheduler and the controllers of workloads")
    down = commands.add_parser("down", help="end the control plane of a state directory")
    beside_it = commands.add_parser("lws", help="run LWS beside a control plane; Ctrl-C ends it")
    for command in (up, down, beside_it):
        command.add_argument("state", type=Path, help="directory for its data, keys and logs")
    run = commands.add_parser("run", help="run a command in a network namespace with addresses for Pods")
    beside = commands.add_parser("beside", help="run a command while a control plane is up ($KUBECONFIG)")
    for command in (run, beside):
        command.add_argument(
            "words", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command and its arguments"
        )
    return parser


def _build(environ: Mapping[str, str]) -> Path:
    found = programs.find(environ)
    return (
        found.directory if found else build.build(programs.wanted_version(environ), programs.cache(environ))
    )


def _found(environ: Mapping[str, str]) -> programs.Programs:
    found = programs.find(environ)
    if found is None:
        raise programs.ControlPlaneError(f"There is no control plane: {HOW_TO_GET}")
    return found


def _found_lws(environ: Mapping[str, str]) -> Path:
    found = lws.find(environ)
    if found is None:
        raise programs.ControlPlaneError(f"There is no LWS: {lws.HOW_TO_GET}")
    return found


def _check(environ: Mapping[str, str]) -> int:
    found = programs.find(environ)
    if found is None:
        _say(f"{LEFT_OUT}it is not built. {HOW_TO_GET}")
    elif reason := namespace.why_impossible():
        _say(f"{LEFT_OUT}{reason}")
    else:
        without = "" if helm.find(environ) else f", without those of the chart: {helm.HOW_TO_GET}"
        if not monitoring.find(environ).keys() >= {*monitoring.NAMES}:
            without += f", without those with Prometheus: {monitoring.HOW_TO_GET}"
        if lws.find(environ) is None:
            without += f", without those of LWS: {lws.HOW_TO_GET}"
        if keda.find(environ) is None:
            without += f", without those of KEDA: {keda.HOW_TO_GET}"
        if suites.find("envoy-gateway", environ) is None:
            without += f", without those of Envoy Gateway: {suites.how_to_get('envoy-gateway')}"
        _say(f"The tests in a real control plane are included ({found.origin}){without}")
        return 0
    return 1


def _say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
