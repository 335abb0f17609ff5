#!/usr/bin/env bash
# Builds the container image TAG from this clone, with docker, podman or buildah: the first that is installed
# and works. Further options go to its build command, such as --build-arg PYTHON_IMAGE=python:3.13-slim.
# usage: image.sh TAG [OPTION ...]
set -euo pipefail
cd "$(dirname "$0")/.."
tag=$1
shift
found=
for builder in docker podman buildah; do
	command -v $builder >/dev/null || continue
	found="$found $builder"
	# The client of docker is of no use without its daemon.
	if $builder info >/dev/null 2>&1; then
		exec $builder build --tag "$tag" --file deploy/image/Dockerfile "$@" .
	fi
done
if [ -z "$found" ]; then
	echo "The image needs docker, podman or buildah, and none of them is installed." >&2
else
	echo "No image can be built: ${found# } is installed, but its command 'info' fails:" >&2
	${found##* } info 2>&1 >/dev/null | tail -3 >&2
fi
exit 1
