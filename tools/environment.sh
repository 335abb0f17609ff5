#!/usr/bin/env bash
# Creates the virtual environment DIRECTORY with PYTHON, or completes an unfinished one. Reports missing
# requirements before it creates anything, and leaves nothing behind if it fails or is interrupted.
# usage: environment.sh PYTHON DIRECTORY
set -euo pipefail
python=$1 directory=$2
if "$directory/bin/python" -c 'import pip' 2>/dev/null; then
	exit 0
fi
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || {
	echo "There is no Python to run as '$python'. Install Python 3.11 or newer, or name one: make PYTHON=python3.12" >&2
	exit 1
}
if ! [[ $version =~ ^[0-9]+\.[0-9]+$ ]]; then
	echo "'$python' is no Python: it does not say its version. Name one: make PYTHON=python3.12" >&2
	exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
	echo "Headgate needs Python 3.11 or newer; $python is $version. Name another one: make PYTHON=python3.12" >&2
	exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
	echo "$python cannot make a virtual environment: its modules venv and ensurepip are not installed." >&2
	echo "On Debian and Ubuntu, run: sudo apt-get install python$version-venv" >&2
	echo "Elsewhere, install the package of Python $version that has them, or name another one: make PYTHON=..." >&2
	exit 1
fi
if "$directory/bin/python" -c '' 2>/dev/null; then
	echo "Completing the environment in $directory, which has no pip ..."
	if "$directory/bin/python" -m ensurepip >/dev/null 2>&1; then
		exit 0
	fi
fi
echo "Making an environment in $directory ..."
rm -rf "$directory"
trap 'rm -rf "$directory"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
"$(dirname "$0")/quietly.sh" "$python" -m venv "$directory"
trap - EXIT
