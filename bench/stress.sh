#!/usr/bin/env bash
# docs/bench/stress.md and its two plots, which the README shows: 1 to 500 requests at once, one by one
# against batched, on a simulated device and on a real model. About 70 seconds after the build.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${PACELINE_BIN:-target/release/paceline}
if [[ -z ${PACELINE_BIN:-} ]]; then
    cargo build --release --quiet -p paceline-cli
fi
for model in curve magika; do
    "$binary" bench http --stress --model "$model" --plot "docs/bench/stress-$model.svg"
done
