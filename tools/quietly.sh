#!/usr/bin/env bash
# Runs a command in its own process group, which Ctrl-C ends without output: Python would print a traceback.
# usage: quietly.sh COMMAND [ARGUMENT ...]
set -m
"$@" </dev/null &
running=$!
end() {
	kill -TERM -- -$running 2>/dev/null
	wait $running 2>/dev/null
	exit "$1"
}
trap 'end 130' INT
trap 'end 143' TERM HUP
wait $running
