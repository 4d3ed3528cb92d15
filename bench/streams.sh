#!/usr/bin/env bash
# docs/bench/streams.md: real-time streams of speech on one machine.
#
# usage: bench/streams.sh [STREAMS...]
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --quiet -p paceline-cli
if (($# == 0)); then
    set -- 100 400 800
fi
for streams in "$@"; do
    target/release/paceline bench stream --streams "$streams" --seconds 12
done
