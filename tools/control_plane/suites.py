"""Conformance suites and the programs that they need: versions, where they are found, and how they are built.

Each family is one directory of the cache: programs, and files of its module that are used beside them.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import build
import pod_listening
import programs

VARIABLE = "HEADGATE_TEST_SUITES"
SUITE_FILE = "suite_test.go"
SUITE = """package suite

import (
	"testing"

	"{package}"
)

func TestConformance(t *testing.T) {{ conformance.RunConformance(t) }}
"""


class LeftOut(NamedTuple):
    """Parts of a module that need what the module proxy does not serve."""

    modules: Sequence[str]
    """Those that are not served."""
    paths: Sequence[str]
    """Files and directories whose packages need them."""
    mentions: Mapping[str, Sequence[str]]
    """Words by file: the lines that have one of them mention what is left out."""
    base: str
    """The module that it extends. Libraries of both have the versions that this one asks for, so that what is
    compiled is shared, and the programs differ by their own code only."""


class Family(NamedTuple):
    """Programs that are built together."""

    name: str
    modules: Mapping[str, str]
    """Versions of modules, by their paths. The first one has the version of the family."""
    commands: Mapping[str, str] = {}
    """Packages of programs, by the name of the program."""
    suites: Mapping[str, str] = {}
    """Packages with a function RunConformance, by the name of the test program."""
    files: Mapping[str, tuple[str, str]] = {}
    """Directories that are kept: by their new names, the module and the path in there."""
    replaced: Mapping[str, str] = {}
    """Versions of modules that are taken in place of newer ones, which others ask for."""
    left_out: LeftOut | None = None
    """What is not built of the first module, which is then built from a copy of its source."""

    @property
    def version(self) -> str:
        return next(iter(self.modules.values()))

    @property
    def directory(self) -> str:
        return f"{self.name}-{self.version}"


GATEWAY_API = "sigs.k8s.io/gateway-api"
INFERENCE_EXTENSION = "sigs.k8s.io/gateway-api-inference-extension"
ENVOY_GATEWAY = "github.com/envoyproxy/gateway"
AI_GATEWAY = "github.com/envoyproxy/ai-gateway"
LLM_D = "github.com/llm-d/llm-d-inference-scheduler"

FAMILIES = {
    each.name: each
    for each in (
        # In one module, because they have most of their libraries in common.
        Family(
            "gateway-suites",
            {
                f"{GATEWAY_API}/conformance": "1.6.1",
                GATEWAY_API: "1.6.1",
                f"{INFERENCE_EXTENSION}/conformance": "1.6.0",
                INFERENCE_EXTENSION: "1.6.0",
            },
            commands={
                "echo-basic": f"{GATEWAY_API}/conformance/echo-basic",
                "lwepp": f"{INFERENCE_EXTENSION}/cmd/lwepp",
            },
            suites={
                "gateway-api.test": f"{GATEWAY_API}/conformance",
                "inference-extension.test": f"{INFERENCE_EXTENSION}/conformance",
            },
            files={
                "gateway-api-definitions": (GATEWAY_API, "config/crd/standard"),
                "inference-extension-definitions": (INFERENCE_EXTENSION, "config/crd/bases"),
            },
        ),
        Family("epp", {INFERENCE_EXTENSION: "1.4.0"}, commands={"epp": f"{INFERENCE_EXTENSION}/cmd/epp"}),
        # Without the plugins that know exactly what engines have cached, by a library of which the module
        # proxy has no version, and those that use its tokenizer.
        Family(
            "llm-d",
            {LLM_D: "0.7.1"},
            commands={"llm-d-inference-scheduler": f"{LLM_D}/cmd/epp"},
            files={"configurations": (LLM_D, "deploy/config")},
            left_out=LeftOut(
                modules=["github.com/llm-d/llm-d-kv-cache"],
                paths=[
                    "pkg/plugins/scorer/precise_prefix_cache.go",
                    "pkg/plugins/preparedata",
                    "pkg/plugins/multi",
                ],
                mentions={"pkg/plugins/register.go": ["PrecisePrefixCache", "preparedata", "multi"]},
                base=INFERENCE_EXTENSION,
            ),
        ),
        # Envoy AI Gateway is the extension by which Envoy Gateway takes InferencePools as backends. With the
        # libraries of the suites, what is compiled for these is used again.
        Family(
            "envoy-gateway",
            {
                ENVOY_GATEWAY: "1.8.1",
                AI_GATEWAY: "1.0.0",
                f"{GATEWAY_API}/conformance": "1.6.1",
                f"{INFERENCE_EXTENSION}/conformance": "1.6.0",
            },
            replaced={GATEWAY_API: "1.5.1", INFERENCE_EXTENSION: "1.0.2"},
            commands={
                "envoy-gateway": f"{ENVOY_GATEWAY}/cmd/envoy-gateway",
                "ai-gateway-controller": f"{AI_GATEWAY}/cmd/controller",
            },
            files={
                "gateway-helm": (ENVOY_GATEWAY, "charts/gateway-helm"),
                "ai-gateway-helm": (AI_GATEWAY, "manifests/charts/ai-gateway-helm"),
                "ai-gateway-crds-helm": (AI_GATEWAY, "manifests/charts/ai-gateway-crds-helm"),
            },
        ),
    )
}
NAMES = tuple(FAMILIES)


def cache(environ: Mapping[str, str]) -> Path:
    return programs.cache(environ).parent / "suites"


def find(name: str, environ: Mapping[str, str]) -> Path | None:
    """The directory of a family: in the directory that the environment names, or that of the build."""
    family = FAMILIES[name]
    named = environ.get(VARIABLE)
    place = (Path(named).expanduser().resolve() if named else cache(environ)) / family.directory
    wanted = (*family.commands, *family.suites)
    return place if all(os.access(place / each, os.X_OK) for each in wanted) else None


def how_to_get(name: str) -> str:
    return (
        f"`python3 tools/control_plane build-suites {name}` builds it with Go; or name a directory that has "
        f"{FAMILIES[name].directory}: {VARIABLE}=DIR"
    )


def build_all(names: Sequence[str], environ: Mapping[str, str]) -> list[Path]:
    """Builds what is not there. A second build of the same family waits for the first one."""
    if unknown := [name for name in names if name not in FAMILIES]:
        raise programs.ControlPlaneError(f"{unknown[0]!r} is none of {', '.join(NAMES)}")
    home = cache(environ)
    home.mkdir(parents=True, exist_ok=True)
    made = []
    for name in names or NAMES:
        family = FAMILIES[name]
        with build.locked(home / f"{family.directory}.lock", family.directory):
            made.append(find(name, environ) or _build(family, home))
    return made


def _build(family: Family, home: Path) -> Path:
    """The directory appears under its name only when it is complete."""
    done = home / family.directory
    for leftover in home.glob(f"{family.directory}.new.*"):  # of killed builds: the lock excludes others
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{family.directory}.new.", dir=home) as name:
        work, made = Path(name) / "module", Path(name) / "made"
        work.mkdir()
        made.mkdir()
        go = build.Go(home)
        overlay = pod_listening.overlay(Path(go.run(["env", "GOROOT"], home).strip()), home / "overlay")
        go.environ["GOFLAGS"] += f" -overlay={overlay}"
        (_write_module if family.left_out is None else _copy_module)(go, work, family)
        for program, package in family.commands.items():
            go.build(work, made / program, [package], "-s -w")
        for program, package in family.suites.items():
            (work / SUITE_FILE).write_text(SUITE.format(package=package))
            go.build_tests(work, made / program)
            (work / SUITE_FILE).unlink()
        for kept, (module, path) in family.files.items():
            shutil.copytree(go.files(module, family.modules[module]) / path, made / kept)
        shutil.rmtree(done, ignore_errors=True)
        made.rename(done)
    return done


def _write_module(go: build.Go, work: Path, family: Family) -> None:
    published = [go.module(path, version) for path, version in family.modules.items()]
    newest = max((each["Go"] for each in published), key=lambda go: [int(part) for part in go.split(".")])
    lines = [f"module headgate.invalid/{family.name}", f"go {newest}"]
    lines += [f"require {path} v{version}" for path, version in family.modules.items()]
    lines += [f"replace {path} => {path} v{version}" for path, version in family.replaced.items()]
    (work / "go.mod").write_text("\n".join(lines) + "\n")


def _copy_module(go: build.Go, work: Path, family: Family) -> None:
    """Copies the first module without what is left out. Its own go.sum verifies what it is built with."""
    left_out = family.left_out
    assert left_out is not None
    path, version = next(iter(family.modules.items()))
    go.module(path, version)
    build.copy_source(go.files(path, version), work, ["cmd", "pkg"])
    for each in left_out.paths:
        place = work / each
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    for name, words in left_out.mentions.items():
        file = work / name
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(line for line in lines if not any(word in line for word in words)))
    for module in left_out.modules:
        go.run(["mod", "edit", f"-droprequire={module}"], work)
    required = _required(json.loads(go.run(["mod", "edit", "-json"], work)))
    if version := required.get(left_out.base):
        wanted = _required(go.module(left_out.base, version.removeprefix("v")))
        same = [f"-require={path}@{wanted[path]}" for path in required if path in wanted]
        go.run(["mod", "edit", *same], work)


def _required(module: Mapping[str, Any]) -> dict[str, str]:
    """Versions of modules, by their paths."""
    return {each["Path"]: each["Version"] for each in module.get("Require") or ()}
