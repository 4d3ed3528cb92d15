#!/usr/bin/env bash
# What the load tester itself costs: the same server, loaded by `paceline bench http` and by the C
# generator of bench/peers in turn, with the same request and the same number of connections.
#
# usage: bench/load.sh [REPETITIONS] [SECONDS] ["CONNECTIONS..."]
# Needs a C compiler. About REPETITIONS x SECONDS x 4 seconds after the build; PACELINE_BIN names a binary that is there.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
repetitions=${1:-3}
seconds=${2:-4}
read -ra connections <<<"${3:-64 128}"
port=${PORT:-9140}
binary=${PACELINE_BIN:-$root/target/release/paceline}
if [[ -z ${PACELINE_BIN:-} ]]; then
    cargo build --release --quiet --manifest-path "$root/Cargo.toml" -p paceline-cli
fi
body=$root/bench/peers/body_json
path=/v1/models/echo/infer

work=$(mktemp -d)
server=
finish() {
    if [[ -n $server ]]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap finish EXIT

cc -O2 -o "$work/loadgen" "$root/bench/peers/loadgen.c"
cd "$work"
PORT=$port MODEL=echo MAXB=64 WAIT_MS=0 PACELINE_BIN=$binary \
    "$root/bench/peers/servers/paceline.sh" >"$work/server.log" 2>&1 </dev/null &
server=$!
for _ in $(seq 100); do
    if "$work/loadgen" 127.0.0.1 "$port" "$path" "$body" 1 0.2 >/dev/null 2>&1; then
        break
    fi
    sleep 0.1
done

printf '%-22s%12s%14s%10s%10s\n' generator connections answers/s p50_ms p99_ms
for _ in $(seq "$repetitions"); do
    for count in "${connections[@]}"; do
        "$work/loadgen" 127.0.0.1 "$port" "$path" "$body" "$count" "$seconds" |
            python3 -c 'import json, sys
row = json.load(sys.stdin)
print("%-22s%12d%14.0f%10.2f%10.2f" % ("loadgen.c", row["conc"], row["rps"], row["p50_ms"], row["p99_ms"]))'
        "$binary" bench http --url "http://127.0.0.1:$port$path" --body "@$body" --json \
            --concurrency "$count" --duration "${seconds}s" --warm-up 0s |
            python3 -c 'import json, sys
row = json.load(sys.stdin)["rows"][0]
print("%-22s%12d%14.0f%10.2f%10.2f" % ("paceline bench http", row["concurrency"], row["answers_per_s"], row["p50_ms"], row["p99_ms"]))'
    done
done
