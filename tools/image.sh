#!/usr/bin/env bash
# Builds the container image TAG from this clone, with docker, podman or buildah: the first that is installed
# and works. Further options go to its build command, such as --build-arg PYTHON_IMAGE=python:3.13-slim.
# usage: image.sh TAG [OPTION ...]
set -euo pipefail
cd "$(dirname "$0")/.."
tag=$1
shift

# Of the last commit, so that the same commit makes the same image; a change beside it is told by -dirty.
describe() {
	version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
	revision='' created='' epoch='' source=''
	if git rev-parse --verify -q HEAD >/dev/null 2>&1; then
		revision=$(git describe --always --abbrev=40 --exclude '*' --dirty)
		created=$(TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd)
		epoch=$(git log -1 --format=%ct)
		# As a URL, and without a password; a clone of a directory has none.
		source=$(git config --get remote.origin.url || true)
		source=$(sed -nE 's#^git@([^:/]+):#https://\1/#; s#^(https?://)[^/@]*@#\1#; /^https?:/p' <<<"$source")
	fi
}

show() {
	local labels='{{range $name, $value := .Labels}}{{$name}}={{$value}}{{"\n"}}{{end}}'
	if [ "$1" = buildah ]; then
		size=$(buildah images --format '{{.Size}}' "$tag")
		buildah inspect --type image --format "{{.FromImageID}}, $size{{\"\n\"}}{{with .Docker.Config}}$labels{{end}}" "$tag"
	else
		$1 image inspect --format "{{.Id}}, {{.Size}} bytes{{\"\n\"}}{{with .Config}}$labels{{end}}" "$tag"
	fi | sed '1s/^/Built '"${tag//\//\\/}"': /; 2,$s/^./  &/; /^$/d'
	[ "$1" = buildah ] || echo "Run it: $1 run --rm --read-only --cap-drop ALL $tag version"
}

found=
for builder in docker podman buildah; do
	command -v $builder >/dev/null || continue
	found="$found $builder"
	# The client of docker is of no use without its daemon.
	if $builder info >/dev/null 2>&1; then
		describe
		options=()
		# The format of OCI has no health check.
		[ $builder = docker ] || options+=(--format docker ${epoch:+--timestamp "$epoch"})
		$builder build --tag "$tag" --file deploy/image/Dockerfile "${options[@]}" \
			${epoch:+--build-arg SOURCE_DATE_EPOCH="$epoch"} --build-arg VERSION="$version" \
			--build-arg REVISION="$revision" --build-arg CREATED="$created" --build-arg SOURCE="$source" "$@" .
		show $builder 2>/dev/null || echo "Built $tag, which $builder does not keep on this machine"
		exit
	fi
done
if [ -z "$found" ]; then
	echo "The image needs docker, podman or buildah, and none of them is installed." >&2
else
	echo "No image can be built: ${found# } is installed, but its command 'info' fails:" >&2
	${found##* } info 2>&1 >/dev/null | tail -3 >&2
fi
exit 1
