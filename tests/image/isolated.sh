#!/usr/bin/env bash
# Runs a command as process 1 of a container made of this machine: with a read-only root file system, as a user
# without rights. To be started in new namespaces of mounts and processes, as root or as root of a user namespace.
# usage: isolated.sh ROOT NEWUSER LIMITS VOLUME... -- VARIABLE=VALUE... COMMAND...
#   ROOT: an empty directory; NEWUSER: the words before the command that make it an ordinary user
#   LIMITS: options of prlimit; VOLUME: SOURCE:TARGET:ro or SOURCE:TARGET:rw
set -euo pipefail
root=$1 newuser=$2 limits=$3
shift 3
mount --make-rprivate /
mount -t tmpfs -o mode=755 none "$root"
cd "$root"
mkdir old proc dev tmp
for each in bin sbin lib lib64; do
	[ -L "/$each" ] && cp -P "/$each" . || set -- "/$each:/$each:ro" "$@"
done
for each in usr etc/hosts etc/nsswitch.conf etc/resolv.conf etc/ld.so.cache etc/ssl etc/alternatives; do
	set -- "/$each:/$each:ro" "$@"
done
while [ "$1" != -- ]; do
	IFS=: read -r source target mode <<<"$1"
	shift
	[ -e "$source" ] || continue
	if [ -d "$source" ]; then
		mkdir -p ".$target"
	else
		mkdir -p "$(dirname ".$target")"
		touch ".$target"
	fi
	mount --bind -o "$mode" "$source" ".$target"
done
shift
mount -t tmpfs -o mode=755 none dev
mkdir dev/shm
mount -t tmpfs -o mode=1777,size=64m none dev/shm
for each in null zero full random urandom; do
	touch "dev/$each"
	mount --bind "/dev/$each" "dev/$each"
done
mount -o remount,ro none dev
mount -t proc none proc
pivot_root . old
umount -l /old
rmdir /old
mount -o remount,ro none /
# shellcheck disable=SC2086 # several words each
exec env -i --chdir="${WORKDIR:-/}" PATH=/usr/sbin:/usr/bin:/sbin:/bin prlimit $limits $newuser env -i "$@"
