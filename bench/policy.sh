#!/usr/bin/env bash
# docs/bench/policy.md: batching policies side by side in virtual time. Half a second after the build.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${PACELINE_BIN:-target/release/paceline}
if [[ -z ${PACELINE_BIN:-} ]]; then
    cargo build --release --quiet -p paceline-cli
fi
exec "$binary" bench policy "$@"
