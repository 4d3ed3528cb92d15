#!/usr/bin/env bash
# docs/bench/batcher.md: what the batcher itself costs per item, beside two other crates and a bare
# channel pair. About half a minute after the build.
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo bench --quiet -p paceline-batch --bench overhead "$@"
