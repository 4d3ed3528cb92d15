#!/usr/bin/env bash
# What being observed costs: the echo model loaded over HTTP, in turns, by servers that
#   uncounted  count nothing (a build of its own)
#   counted    count everything and are not asked
#   scraped    are asked for /metrics once a second
#   traced     send a span for each request to a collector on this machine, whose work counts too
#   sampled    the same for one request in a hundred
# One round runs each once, in an order that changes from round to round; what is compared are the
# ratios within a round, and their median is shown.
#
# usage: bench/metrics.sh [ROUNDS] [SECONDS] [CONNECTIONS]
# Builds twice (--release). About ROUNDS x SECONDS x 5 seconds after that.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
if [[ -z ${PACELINE_BIN:-} ]]; then
    cargo build --release --quiet -p paceline-cli --features uncounted
    cp target/release/paceline target/release/paceline-uncounted
    cargo build --release --quiet -p paceline-cli
    cargo build --release --quiet -p paceline-server --example collector
fi
exec python3 "$root/bench/metrics.py" "${PACELINE_BIN:-target/release/paceline}" \
    "${PACELINE_UNCOUNTED:-target/release/paceline-uncounted}" \
    "${PACELINE_COLLECTOR:-target/release/examples/collector}" "${1:-9}" "${2:-3}" "${3:-64}"
