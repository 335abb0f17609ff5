#!/usr/bin/env bash
# Provides a Chromium for the tests of the dashboard: the one that HEADGATE_CHROMIUM names, one on PATH, or else Debian's,
# which is installed if this user may. Without any of these, the tests that need it are skipped, so this never fails, unless
# it is asked to.
# usage: fetch_chromium.sh [--path|--require]
#   --path: prints where it is, and installs nothing    --require: fails without one
set -euo pipefail
find_it() {
	local name
	for name in ${HEADGATE_CHROMIUM:-chromium chromium-browser google-chrome}; do
		if command -v "$name"; then
			return 0
		fi
	done
	return 1
}
if [ "${1:-}" = --path ]; then
	find_it || true
	exit 0
fi
if find_it >/dev/null; then
	exit 0
fi
give_up() {
	echo "There is no Chromium, and $1." >&2
	echo "The tests that need it are skipped. Install it, or name one: HEADGATE_CHROMIUM=/path/to/chromium" >&2
	[ "${mode:-}" != --require ] || exit 1
	exit 0
}
mode=${1:-}
[ -z "${HEADGATE_CHROMIUM:-}" ] || give_up "HEADGATE_CHROMIUM=$HEADGATE_CHROMIUM names no program"
command -v apt-get >/dev/null || give_up "without apt it cannot be installed"
as_root=
if [ "$(id -u)" != 0 ]; then
	sudo -n true 2>/dev/null || give_up "only root may install it"
	as_root="sudo -n"
fi
echo "Installing Chromium ..."
install=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install chromium)
# The lists of a fresh container are missing, and those of an old one name packages that are gone.
if ! $as_root "${install[@]}" >/dev/null 2>&1; then
	$as_root apt-get -qq update >/dev/null 2>&1 || give_up "the lists of packages cannot be fetched"
	reason=$($as_root "${install[@]}" 2>&1 >/dev/null) || give_up "it cannot be installed: $(tail -n 1 <<<"$reason")"
fi
find_it >/dev/null || give_up "the package chromium brings no program of this name"
