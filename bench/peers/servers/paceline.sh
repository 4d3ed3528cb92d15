#!/usr/bin/env bash
# Paceline with one simulated model. Gets PORT, MODEL (echo or sim), MAXB and WAIT_MS, as every peer.
#
# This is the one place that knows how Paceline is started; PACELINE_BIN names another binary.
set -euo pipefail

root=$(cd "$(dirname "$0")/../../.." && pwd)
binary=${PACELINE_BIN:-$root/target/release/paceline}
if [[ ! -x $binary ]]; then
    echo "$binary is missing; build it with: cargo build --release" >&2
    exit 1
fi
case $MODEL in
echo) curve_ms='[[1, 0]]' ;;
sim) curve_ms='[[1, 50], [8, 70], [32, 150], [64, 280]]' ;;
*)
    echo "MODEL is $MODEL, where echo or sim is expected" >&2
    exit 2
    ;;
esac

config=$PWD/paceline.toml
cat >"$config" <<CONFIG
[server]
listen = "127.0.0.1:$PORT"
# Only this model, so that every peer serves one.
grpc_listen = "127.0.0.1:$((PORT + 10))"
model_repository = ""

[models.$MODEL]
backend = "simulated"

[models.$MODEL.simulated]
input = "input"
output = "length"
dtype = "UINT8"
answer = "count"
curve = $curve_ms

[models.$MODEL.batch]
max_items = $MAXB
max_wait = "${WAIT_MS}ms"
queue_items = 4096
CONFIG
exec "$binary" serve --config "$config"
