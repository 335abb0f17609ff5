#!/usr/bin/env bash
# tools/debian_packages.sh DIRECTORY PACKAGE...: unpacks packages of Debian or Ubuntu into a directory that appears
# only when it is complete. Nothing is installed, and root is not needed. Fails with the reason in one line.
set -euo pipefail
home=$1
shift
fail() {
	echo "$1" >&2
	exit 1
}
command -v apt-get >/dev/null && command -v dpkg >/dev/null || fail "without apt it cannot be fetched"
new=$home.new.$$
trap 'rm -rf "$new"' EXIT
mkdir -p "$new/lists/partial" "$new/archives"
new=$(realpath "$new")
apt=(apt-get -qq -o "APT::Sandbox::User=root" -o "Dir::State::Lists=$new/lists" -o "Dir::Cache=$new"
	-o "Dir::Cache::archives=$new/archives")
"${apt[@]}" update || fail "the lists of packages cannot be fetched"
(cd "$new" && "${apt[@]}" download "$@") || fail "its packages cannot be fetched"
for package in "$new"/*.deb; do
	dpkg -x "$package" "$new" || fail "$package cannot be unpacked"
done
rm -rf "$new/lists" "$new/archives" "$new"/*.deb "$new"/*.bin "$home"
mv "$new" "$home"
