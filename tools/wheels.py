"""Build the wheels of Headgate into `dist`: `python tools/wheels.py PYTHON...`, such as python3.11
python3.13.

Builds one wheel of pure Python, which runs everywhere, and one with compiled modules for each given Python.
pip selects the one for its own Python, or else the pure one. A copy of the sources is compiled, so that the
clone is not changed; unchanged modules are not compiled again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "wheels"
COPY = CACHE / "source"
DIST = ROOT / "dist"
LOCK = "requirements-compile.lock"
COPIED = ("LICENSE", "README.md", "pyproject.toml", "requirements.lock", LOCK, "src", "tools")


def copy_sources() -> None:
    """Copy the sources without modules compiled in the clone; those compiled in the copy are reused."""
    for name in COPIED:
        shutil.rmtree(COPY / name, ignore_errors=True)
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, COPY / name, ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
            )
        else:
            COPY.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, COPY / name)


def run(*words: str | Path) -> None:
    quiet = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run([str(word) for word in words], check=True, env=quiet)  # noqa: S603 - commands of this file


def version_of(python: str) -> str | None:
    """Such as 3.12; None if it cannot be run."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        ran = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True)  # noqa: S603 - as told
    except OSError:
        return None
    return ran.stdout.strip() if ran.returncode == 0 else None


def environment(python: str, version: str) -> Path:
    """The Python of an environment that can compile; kept until the lock file changes."""
    made = CACHE / version
    inside, stamp = made / "bin" / "python", made / "lock"
    lock = hashlib.sha256((ROOT / LOCK).read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != lock:
        run(ROOT / "tools" / "environment.sh", python, made)
        run(inside, "-m", "pip", "install", "-q", "-r", ROOT / LOCK)
        stamp.write_text(lock)
    return inside


def wheel(inside: Path) -> Path:
    into = CACHE / "dist"
    shutil.rmtree(into, ignore_errors=True)
    run(inside, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "--wheel-dir", into, COPY)
    [built] = into.glob("*.whl")
    DIST.mkdir(exist_ok=True)
    return Path(shutil.move(built, DIST / built.name))


def show(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        compiled = sum(name.startswith("headgate/") and name.endswith(".so") for name in archive.namelist())
    form = f"{compiled} compiled modules" if compiled else "plain Python"
    sys.stdout.write(f"{path.relative_to(ROOT)}: {form}, {path.stat().st_size / 1e6:.1f} MB\n")
    sys.stdout.flush()


def main(pythons: Sequence[str]) -> int:
    versions = {python: version_of(python) for python in pythons}
    found = {python: version for python, version in versions.items() if version is not None}
    for python in versions.keys() - found.keys():
        sys.stderr.write(f"There is no Python to run as {python}: no wheel is compiled for it\n")
    failures = len(versions) - len(found)
    copy_sources()
    for place, (python, version) in enumerate(found.items()):
        inside = environment(python, version)
        if not place:
            show(wheel(inside))
        try:
            run(inside, COPY / "tools" / "compile.py")
        except subprocess.CalledProcessError:
            failures += 1
        else:
            show(wheel(inside))
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
