#!/usr/bin/env bash
# Provides an S3 server for the tests of downloads: the versitygw on PATH, the one that HEADGATE_S3_SERVER names, or
# else a pinned release in the user's cache, which Go builds from its module (a few minutes). Without any of these,
# tests that need it are skipped, and the first lines of the report say so, so this never fails.
# usage: fetch_s3_server.sh [--path]    --path: prints where the pinned release is kept, and builds nothing
set -euo pipefail
version=1.8.0
home=${XDG_CACHE_HOME:-$HOME/.cache}/headgate/versitygw-$version
if [ "${1:-}" = --path ]; then
	echo "$home/versitygw"
	exit 0
fi
if [ -n "${HEADGATE_S3_SERVER:-}" ] || command -v versitygw >/dev/null || [ -x "$home/versitygw" ]; then
	exit 0
fi
give_up() {
	echo "There is no S3 server for the tests, and $1." >&2
	echo "The tests that need it are skipped. Install versitygw, or name one: HEADGATE_S3_SERVER=/path/to/versitygw" >&2
	exit 0
}
command -v go >/dev/null || give_up "no Go to build one"
mkdir -p "$home"
work=$(mktemp -d "$home/new.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
echo "Building versitygw $version with Go into $home (a few minutes) ..."
GOBIN=$work GOFLAGS=-mod=mod GOWORK=off CGO_ENABLED=0 \
	go install "github.com/versity/versitygw/cmd/versitygw@v$version" || give_up "building one failed"
mv "$work/versitygw" "$home/versitygw"
