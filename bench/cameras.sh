#!/usr/bin/env bash
# docs/bench/cameras.md: runs every command of the page and writes what they found into it.
#
# usage: bench/cameras.sh [--short] [--long] [OUT]
#   --short  a few seconds each, to see that it works; nothing is written into the page
#   --long   also ten minutes at full rate, to see whether memory grows
#   OUT      where the JSON of every run is kept; target/bench/cameras if left out
# About seven minutes, and eleven more with --long. Nothing else should run. PACELINE_BIN is a program to
# measure instead of building one; PACELINE_REDIS_SERVER another redis-server or a valkey-server.
set -euo pipefail
cd "$(dirname "$0")/.."
short= long=
while [[ ${1:-} == --* ]]; do
    case $1 in
        --short) short=1 ;;
        --long) long=1 ;;
        *) sed -n '2,/^set/{/^#/p}' "$0" >&2; exit 2 ;;
    esac
    shift
done
out=${1:-target/bench/cameras}
mkdir -p "$out"
rm -f "$out"/*.json
if [[ -z ${PACELINE_BIN:-} ]]; then
    cargo build --release --quiet -p paceline-cli
fi
paceline=${PACELINE_BIN:-target/release/paceline}

# run NAME SECONDS ARGUMENT...
run() {
    local name=$1 seconds=${short:+3}
    echo "$name" >&2
    "$paceline" bench cameras --seconds "${seconds:-$2}" "${@:3}" --json >"$out/$name.json"
}

run headline 60 --cameras 1000 --rate 10000
run more-shards 20 --cameras 1000 --rate 10000 --shards 256 --no-baseline
run per-camera 20 --cameras 1000 --rate 10000 --layout camera --no-baseline
run highest 10 --cameras 1000 --rate 10000 --find-max
run cameras 20 --each-cameras 100,1000,10000 --rate 10000 --no-baseline
run payloads 20 --cameras 1000 --rate 5000 --size 20480 --each-payload raw,handle --no-baseline
run pictures 20 --cameras 100 --rate 500 --payload jpeg --no-baseline
if [[ -n $long ]]; then
    run long 600 --cameras 1000 --rate 10000 --no-baseline
fi
exec python3 bench/cameras.py "$out" ${short:+--print}
