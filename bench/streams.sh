#!/usr/bin/env bash
# docs/bench/streams.md: real-time streams of speech on one machine.
#
# usage: bench/streams.sh [STREAMS...]
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${PACELINE_BIN:-target/release/paceline}
if [[ -z ${PACELINE_BIN:-} ]]; then
    cargo build --release --quiet -p paceline-cli
fi
if (($# == 0)); then
    set -- 100 400 800
fi
for streams in "$@"; do
    "$binary" bench stream --streams "$streams" --seconds 12
done
