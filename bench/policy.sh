#!/usr/bin/env bash
# docs/bench/policy.md: batching policies side by side in virtual time. Half a second after the build.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --quiet -p paceline-cli
exec target/release/paceline bench policy "$@"
