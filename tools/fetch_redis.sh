#!/usr/bin/env bash
# Provides a redis-server for the tests: the one on PATH, the one that HEADGATE_REDIS_SERVER names, or else
# Debian's or Ubuntu's, unpacked into .cache/redis: nothing is installed, and root is not needed.
set -euo pipefail
cd "$(dirname "$0")/.."
home=.cache/redis
if [ -n "${HEADGATE_REDIS_SERVER:-}" ] || command -v redis-server >/dev/null || [ -x $home/usr/bin/redis-server ]; then
	exit 0
fi
fail() {
	echo "There is no redis-server, and $1." >&2
	echo "Install one (apt-get install redis-server), or name one: HEADGATE_REDIS_SERVER=/path/to/redis-server" >&2
	exit 1
}
echo "Fetching redis-server into $home ..."
reason=$(mktemp)
trap 'rm -f "$reason"' EXIT
tools/debian_packages.sh $home redis-server redis-tools libjemalloc2 liblzf1 libatomic1 2>"$reason" \
	|| fail "$(tail -n 1 "$reason")"
libraries=$(find "$home" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
LD_LIBRARY_PATH=$libraries $home/usr/bin/redis-server --version || fail "the one that was fetched does not run"
