#!/usr/bin/env bash
# tools/test_again.sh PYTHON [PYTEST-ARGUMENT...]: run pytest, and what failed once more by itself.
#
# Tests of the whole system keep a machine busy that they also measure, so that one in many thousands may miss a time
# limit. One that fails again fails the run. One that passes then is to be mended, but holds up no merge: the output names it
# before the second summary. More than MOST failures at once are no accident.
set -uo pipefail
MOST=5
python=$1
shift
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT

"$python" -m pytest -o cache_dir="$cache" "$@"
code=$?
failures=$cache/v/cache/lastfailed
[ "$code" = 1 ] && [ -s "$failures" ] || exit "$code"
names=$("$python" -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' "$failures")
[ "$(wc -l <<<"$names")" -le "$MOST" ] || exit "$code"

printf '\nOnce more, by themselves; those that pass now are unreliable:\n%s\n\n' "$names"
"$python" -m pytest -o cache_dir="$cache" "$@" -n0 --last-failed
