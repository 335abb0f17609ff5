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
command -v apt-get >/dev/null && command -v dpkg >/dev/null || fail "without apt it cannot be fetched"
echo "Fetching redis-server into $home ..."
rm -rf $home.new
mkdir -p $home.new/lists/partial $home.new/archives
apt=(apt-get -qq -o "APT::Sandbox::User=root" -o "Dir::State::Lists=$PWD/$home.new/lists"
	-o "Dir::Cache=$PWD/$home.new" -o "Dir::Cache::archives=$PWD/$home.new/archives")
"${apt[@]}" update || fail "the lists of packages cannot be fetched"
(cd $home.new && "${apt[@]}" download redis-server redis-tools libjemalloc2 liblzf1 libatomic1) \
	|| fail "its packages cannot be fetched"
for package in $home.new/*.deb; do
	dpkg -x "$package" $home.new || fail "$package cannot be unpacked"
done
rm -rf $home.new/lists $home.new/archives $home.new/*.deb $home.new/*.bin $home
mv $home.new $home
libraries=$(find "$home" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
LD_LIBRARY_PATH=$libraries $home/usr/bin/redis-server --version || fail "the one that was fetched does not run"
