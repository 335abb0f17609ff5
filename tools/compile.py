"""Compile the pure modules of the data path with mypyc: `python tools/compile.py [list|pure|fresh]`.

Without an argument, the extension modules are built and placed beside their sources in `src`, where Python
prefers them. Unchanged modules are not rebuilt. `list` prints the modules, `pure` removes the extension
modules, and `fresh` removes them only if any source of Headgate differs from the one that they were built
from: a compiled module knows the types of everything it uses.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"
PACKAGE = SRC / "headgate"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
BUILD = ROOT / "build" / "compiled" / SUFFIX.split(".")[1]
KEY = BUILD / "key"
"""Hash of the sources that the extension modules in `src` were built from."""
GROUP = "headgate"
OPTIMIZATION = "2"
"""Level 3 takes a third longer, without faster results."""

COMPILED = (
    "auth/directory.py",
    "auth/gate.py",
    "auth/outcome.py",
    "auth/patterns.py",
    "auth/tenant.py",
    "auth/token_cache.py",
    "dataplane/background.py",
    "dataplane/bodies.py",
    "dataplane/objective_headers.py",
    "dataplane/records/access_log.py",
    "dataplane/records/attempt_metrics.py",
    "dataplane/records/kept_requests.py",
    "dataplane/records/log_field_cache.py",
    "dataplane/records/log_text.py",
    "dataplane/records/recorder.py",
    "dataplane/records/request_metrics.py",
    "dataplane/records/tenant_metrics.py",
    "dataplane/rewriting/chunks.py",
    "dataplane/rewriting/document.py",
    "dataplane/rewriting/events.py",
    "dataplane/rewriting/names.py",
    "dataplane/tracing/attributes.py",
    "dataplane/tracing/places.py",
    "dataplane/tracing/spans.py",
    "dataplane/tracing/tracer.py",
    "dataplane/trust.py",
    "dataplane/watching.py",
    "engines/vllm_grpc.py",
    "extproc/decoding.py",
    "extproc/encoding.py",
    "fleet/**/*.py",
    "flow/**/*.py",
    "gateway/authenticating.py",
    "gateway/dial.py",
    "gateway/exchange.py",
    "gateway/fast_path.py",
    "gateway/gateway_api/pool_exchange.py",
    "gateway/hosts.py",
    "gateway/incoming.py",
    "gateway/listener.py",
    "gateway/outgoing.py",
    "gateway/reader.py",
    "gateway/refusals.py",
    "gateway/request.py",
    "gateway/request_head_cache.py",
    "gateway/response.py",
    "gateway/response_parser.py",
    "gateway/services.py",
    "gateway/upload.py",
    "gateway/upload_exchange.py",
    "gateway/upstream.py",
    "gateway/websocket/exchange.py",
    "gateway/websocket/frames.py",
    "http2/allowance.py",
    "http2/connection.py",
    "http2/frames.py",
    "http2/header_blocks.py",
    "http2/hpack.py",
    "http2/peer.py",
    "http2/receiver.py",
    "http2/sender.py",
    "http2/stream.py",
    "http2/streams.py",
    "loop_turns.py",
    "picker/answer.py",
    "picker/hints.py",
    "picker/picking.py",
    "picker/reference_metrics.py",
    "picker/replies.py",
    "picker/request.py",
    "picker/request_body.py",
    "picker/response_body.py",
    "picker/stream.py",
    "protobuf_wire.py",
    "requests/**/*.py",
    "routing/match.py",
    "routing/split.py",
    "rpc/calls.py",
    "rpc/messages.py",
    "rpc/requests.py",
    "scheduling/**/*.py",
    "telemetry/log_clock.py",
    "telemetry/metrics.py",
    "telemetry/tracing/context.py",
)
"""Files to compile, below `src/headgate`, except those below."""

INTERPRETED: Mapping[str, str] = {
    "flow/capacity/capacity.py": "tests have subclasses of it, and a compiled class has no interpreted ones",
    "flow/configuration/*.py": "runs when a configuration is read, and not for a request",
    "scheduling/configuration/*.py": "runs when a configuration is read, and not for a request",
    "scheduling/plugins/*.py": "users bring subclasses of Plugin, and parameters are msgspec's",
}
"""Files not to compile, and why. `leaves_interpreted` adds rules for files that mypyc compiles
incorrectly.
"""


def leaves_interpreted(path: Path) -> str | None:
    """Why mypyc must not compile a file, judged by its contents; None if it may."""
    if path.name == "__init__.py":
        return "only names what others define"
    tree = ast.parse(path.read_text(), str(path))
    guarded: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for each in ast.walk(node):
                if isinstance(each, ast.ImportFrom | ast.Import):
                    guarded.update(alias.asname or alias.name for alias in each.names)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and node.attr == "__new__"
            and ast.unparse(node.value) != "super()"
        ):
            return "makes objects without their constructor, which mypyc always calls"
        if not isinstance(node, ast.ClassDef):
            continue
        if node.keywords or any(ast.unparse(base) == "msgspec.Struct" for base in node.bases):
            return f"{node.name} is a msgspec.Struct, whose options mypyc ignores"
        for each in node.body:
            if isinstance(each, ast.AnnAssign) and guarded.intersection(_names(each.annotation)):
                return f"{node.name} has a field of a type that is imported for type checking only"
    return None


def _names(annotation: ast.expr) -> Iterator[str]:
    return (node.id for node in ast.walk(annotation) if isinstance(node, ast.Name))


def modules() -> list[Path]:
    """The files to compile, in order."""
    found = {path for pattern in COMPILED for path in PACKAGE.glob(pattern)}
    left = {path for pattern in INTERPRETED for path in PACKAGE.glob(pattern)}
    return sorted(path for path in found - left if leaves_interpreted(path) is None)


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(SRC).with_suffix("").parts)


def source_key() -> str:
    """A hash of all sources of Headgate, of this file, and of the compiler's lock file."""
    digest = hashlib.sha256(sys.version.encode())
    lock = ROOT / "requirements-compile.lock"
    for path in [Path(__file__), *([lock] if lock.exists() else []), *sorted(PACKAGE.rglob("*.py"))]:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def is_fresh() -> bool:
    """Whether the extension modules in `src` match the sources."""
    if not KEY.exists() or KEY.read_text() != source_key():
        return False
    return bool(built())


def built() -> list[Path]:
    """The extension modules in `src` for this Python, and the library with their code."""
    return sorted(SRC.rglob(f"*{SUFFIX}"))


def remove() -> None:
    KEY.unlink(missing_ok=True)
    for path in built():
        path.unlink()


def require_compiler() -> None:
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    missing = [] if shutil.which(compiler) else [f"the C compiler {compiler}"]
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        missing.append(f"the headers of Python {sysconfig.get_python_version()}")
    if missing:
        sys.exit(
            f"Headgate cannot be compiled: {' and '.join(missing)} cannot be found. Debian has them "
            "in gcc and python3-dev. Without, Headgate runs as plain Python."
        )


def translate(paths: Sequence[Path]) -> tuple[list[Path], list[Any]]:
    """Translate the modules to C. Returns those that mypyc can compile, which a change may have ended for
    one, and the extensions for setuptools to build.
    """
    told = io.StringIO()
    os.chdir(SRC)  # tracebacks show file names as given
    try:
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            return list(paths), mypycify(paths)
    except (SystemExit, Exception):
        faults = {SRC / found[1]: found[0] for found in _ERROR.finditer(told.getvalue())}
        if not faults.keys() & set(paths):
            sys.stderr.write(told.getvalue())
            raise
    finally:
        os.chdir(ROOT)
    for fault in faults.values():
        show(f"Left interpreted: {fault}")
    return translate([path for path in paths if path not in faults])


_ERROR = re.compile(r"^(headgate/\S+\.py):\d+: (?!note: |warning: ).*", re.M)


def mypycify(paths: Sequence[Path]) -> list[Any]:
    from mypyc import build

    return build.mypycify(
        [
            "--config-file=",
            "--follow-imports=silent",
            "--disable-error-code=import-untyped",
            f"--cache-dir={BUILD / 'mypy'}",
            *(str(path.relative_to(SRC)) for path in paths),
        ],
        opt_level=OPTIMIZATION,
        debug_level="0",
        multi_file=True,
        group_name=GROUP,
        target_dir=str(BUILD / "c"),
    )


def build(extensions: Sequence[Any], into: Path) -> None:
    """Compile C on all cores, except unchanged files, and link it."""
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    headers = hashlib.sha256()
    for path in sorted((BUILD / "c").rglob("*.h")):
        headers.update(path.read_bytes())

    class Build(build_ext):
        def build_extensions(self) -> None:
            jobs = [(extension, source) for extension in self.extensions for source in extension.sources]
            with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
                done = pool.map(self._object, *zip(*jobs, strict=True))
                for count, _ in enumerate(done, 1):
                    show(f"Compiled {count} of {len(jobs)} files", is_last=count == len(jobs))
            for extension in self.extensions:
                self.compiler.link_shared_object(
                    self.compiler.object_filenames(extension.sources, output_dir=self.build_temp),
                    self.get_ext_fullpath(extension.name),
                    extra_postargs=extension.extra_link_args,
                    target_lang="c",
                )

        def _object(self, extension: Any, source: str) -> None:
            [compiled] = self.compiler.object_filenames([source], output_dir=self.build_temp)
            note = Path(f"{compiled}.key")
            key = hashlib.sha256(headers.digest() + Path(source).read_bytes())
            key.update(repr((self.compiler.compiler_so, extension.extra_compile_args)).encode())
            if Path(compiled).exists() and note.exists() and note.read_text() == key.hexdigest():
                return
            self.compiler.compile(
                [source],
                output_dir=self.build_temp,
                include_dirs=extension.include_dirs,
                extra_postargs=extension.extra_compile_args,
            )
            note.write_text(key.hexdigest())

    command = Build(Distribution({"name": GROUP, "ext_modules": list(extensions)}))
    command.build_lib, command.build_temp = str(into), str(BUILD / "o")
    command.ensure_finalized()
    command.run()


_began = time.monotonic()


def show(words: str, is_last: bool = True) -> None:
    """One line of progress, overwritten by the next one on a terminal."""
    if sys.stdout.isatty():
        sys.stdout.write(f"\r\x1b[K{words} ({time.monotonic() - _began:.0f} s)" + ("\n" if is_last else ""))
    elif is_last:
        sys.stdout.write(f"{words} ({time.monotonic() - _began:.0f} s)\n")
    sys.stdout.flush()


def load(paths: Sequence[Path]) -> None:
    """Import all built modules in another process, because an incorrectly compiled module may crash it."""
    code = (
        "import importlib as i, sys\nfor name in sys.argv[1:]: print(name, flush=True), i.import_module(name)"
    )
    names = [name_of(path) for path in paths]
    ran = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-P", "-c", code, *names],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
    )
    if ran.returncode:
        remove()
        last = ran.stdout.split()[-1:] or ["the first module"]
        sys.exit(f"{last[0]} cannot be loaded compiled (exit status {ran.returncode}):\n{ran.stderr}")


def compile_all() -> None:
    paths = modules()
    if is_fresh():
        show("All is compiled already")
        return
    require_compiler()
    remove()
    key = source_key()
    show(f"Translating {len(paths)} modules to C ...")
    paths, extensions = translate(paths)
    libraries = BUILD / "lib"
    shutil.rmtree(libraries, ignore_errors=True)
    build(extensions, libraries)
    for path in libraries.rglob("*" + SUFFIX):
        shutil.copy2(path, SRC / path.relative_to(libraries))
    load(paths)
    KEY.write_text(key)
    show(f"{len(paths)} modules are compiled; `make pure` removes them")


def main(words: Sequence[str]) -> None:
    match words:
        case []:
            compile_all()
        case ["list"]:
            sys.stdout.writelines(f"{name_of(path)}\n" for path in modules())
        case ["pure"]:
            remove()
        case ["fresh"]:
            if built() and not is_fresh():
                remove()
                show("The sources have changed: Headgate runs without compiled modules until `make compiled`")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
