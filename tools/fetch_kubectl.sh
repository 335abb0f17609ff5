#!/usr/bin/env bash
# Provides a kubectl for the tests: the one on PATH, those that HEADGATE_KUBECTL names, or else a pinned release in
# the user's cache. It is downloaded from Kubernetes' download page and verified by its checksum; if that page is
# unreachable, Go builds it from its module (a few minutes). Without any of these, tests that need kubectl are
# skipped, so this never fails.
# usage: fetch_kubectl.sh [--path]    --path: prints where the pinned release is kept, and fetches nothing
set -euo pipefail
version=1.34.4
home=${XDG_CACHE_HOME:-$HOME/.cache}/headgate/kubectl-$version
if [ "${1:-}" = --path ]; then
	echo "$home/kubectl"
	exit 0
fi
if [ -n "${HEADGATE_KUBECTL:-}" ] || command -v kubectl >/dev/null || [ -x "$home/kubectl" ]; then
	exit 0
fi
give_up() {
	echo "There is no kubectl, and $1." >&2
	echo "The tests that need it are skipped. Install kubectl 1.29 or newer, or name one: HEADGATE_KUBECTL=/path/to/kubectl" >&2
	exit 0
}
case $(uname -m) in
x86_64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*) arch=$(uname -m) ;;
esac
system=$(uname -s | tr '[:upper:]' '[:lower:]')
mkdir -p "$home"
work=$(mktemp -d "$home/new.XXXXXX")
trap 'chmod -R u+w "$work" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

download() {
	command -v curl >/dev/null && command -v sha256sum >/dev/null || return 1
	local url=https://dl.k8s.io/release/v$version/bin/$system/$arch/kubectl
	echo "Fetching kubectl $version into $home ..."
	curl -fsSL --connect-timeout 10 --max-time 30 "$url.sha256" -o "$work/sha256" || return 1
	curl -fL --progress-bar --connect-timeout 10 --max-time 600 "$url" -o "$work/kubectl" || return 1
	echo "$(cat "$work/sha256")  $work/kubectl" | sha256sum --check --quiet || return 1
}

build() {
	command -v go >/dev/null || return 1
	echo "Building kubectl $version with Go into $home (a few minutes) ..."
	local module=k8s.io/kubernetes staged=0.${version#1.} mod
	export GOFLAGS=-mod=mod GOWORK=off CGO_ENABLED=0
	cd "$work"
	go mod download "$module@v$version" || return 1
	mod=$(go env GOMODCACHE)/cache/download/$module/@v/v$version.mod
	{
		echo "module headgate.invalid/kubectl"
		echo "go $(awk '$1 == "go" { print $2 }' "$mod")"
		echo "require $module v$version"
		# Kubernetes replaces some modules with directories of its repository; the proxy has them as 0.MINOR.PATCH.
		awk '/=> \.\/staging/ { print $1 == "replace" ? $2 : $1 }' "$mod" | sort -u \
			| while read -r staging; do echo "replace $staging => $staging v$staged"; done
	} >go.mod
	printf '//go:build tools\n\npackage tools\n\nimport _ "%s/cmd/kubectl"\n' "$module" >tools.go
	go mod tidy 2>&1 | awk '{ printf "\r  %d modules", NR; fflush() } END { print "" }' || return 1
	local minor=${version#1.}
	go build -v -trimpath -o kubectl -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=v$version \
		-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=${minor%.*} \
		-X k8s.io/client-go/pkg/version.gitVersion=v$version" "$module/cmd/kubectl" \
		2> >(awk '/^[^ ]+$/ { printf "\r  %d packages", ++n; fflush(); next } { print } END { print "" }' >&2) || return 1
}

download || build || give_up "it could be neither fetched from dl.k8s.io nor built with Go"
chmod +x "$work/kubectl"
"$work/kubectl" version --client >/dev/null || give_up "the one that was fetched does not run"
mv "$work/kubectl" "$home/kubectl"
